"""Large bodies: parsed in another process, while other requests are answered."""

from __future__ import annotations

import threading

import httpx
import numpy as np
import pytest

import crwn
from crwn.errors import DataError
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.parsing import Parser
from serving import Array, Running

MOST = 2_000_000  # rows


def test_a_large_body_does_not_stop_other_requests(service: Running) -> None:
    data = b'{"rows": [' + b"[]," * 5_000_000 + b"[]]}"
    ended: list[str] = []

    def send() -> None:
        headers = {"Content-Type": "application/json"}
        response = httpx.post(f"{service.address}/v1/predict", content=data, headers=headers, timeout=300)
        assert response.status_code in (413, 422)
        ended.append("large")

    thread = threading.Thread(target=send)
    thread.start()
    while service.service.parser.waiting == 0 and thread.is_alive():
        pass
    assert httpx.get(f"{service.address}/healthz", timeout=300).status_code == 200
    ended.append("small")
    thread.join()
    assert ended[0] == "small"


def test_large_and_small_bodies_are_predicted_alike(
    client: crwn.Client, http: httpx.Client, digits: tuple[Array, Array]
) -> None:
    x = digits[0][:1000]
    wanted = client.predict(x, "upright").labels
    found = http.post("/v1/predict", json={"rows": x.tolist(), "task": "upright"})
    assert found.json()["labels"] == wanted
    nested = http.post("/v1/predict", json={"rows": x.reshape(-1, 8, 8).tolist(), "task": "upright"})
    assert nested.json()["labels"] == wanted


def test_the_parser_refuses_in_one_line_and_goes_on() -> None:
    parser = Parser(Limits(parse_seconds=60))
    try:
        for data in (b"[" * 200_000, b"{", b"[1]", b'{"rows": [[1, 2}'):
            with pytest.raises(ServeError, match=r"JSON|object"):
                parser.parse_here(data, "rows", MOST)
        for data in (b'{"rows": [[1], [1, 2]]}', b'{"rows": [["a"]]}'):
            with pytest.raises(DataError, match="lists of numbers"):
                parser.parse_here(data, "rows", MOST)
        with pytest.raises(ServeError, match="3 rows at once: send at most 2") as caught:
            parser.parse_here(b'{"rows": [[1], [1, 2], "a"]}', "rows", 2)
        assert (caught.value.status, caught.value.code) == (413, "too_many_rows")
        rest, array = parser.parse_here(b'{"rows": [[1, 2.5]], "task": "a"}', "rows", MOST)
        assert rest["task"] == "a"
        np.testing.assert_array_equal(np.asarray(array), [[1, 2.5]])
    finally:
        parser.stop()


def test_a_body_that_takes_too_long_ends_its_process_alone() -> None:
    parser = Parser(Limits(parse_seconds=0.0))
    try:
        with pytest.raises(ServeError, match="in time"):
            parser.parse_here(b'{"rows": [' + b"[1]," * 1_000_000 + b"[1]]}", "rows", MOST)
        parser.limits = Limits()
        assert parser.parse_here(b'{"rows": [[1]]}', "rows", MOST)[1] is not None
    finally:
        parser.stop()
