"""Large bodies: parsed in another process, while other requests are answered."""

from __future__ import annotations

import threading
import time

import httpx
import numpy as np
import orjson
import pytest

import crwn
from crwn.errors import DataError
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.parsing import Parser
from serving import Array, Running

MOST, MOST_REST = 2_000_000, 2**20  # rows, and bytes beside them


MANY = b"[]," * 5_000_000 + b"[]"
LARGE = {
    "/v1/predict": b'{"rows": [' + MANY + b"]}",
    "/v1/predict?more": b'{"rows": [[1]], "more": [' + MANY + b"]}",
    "/v1/predict?objects": b'{"rows": [{"a": [' + MANY + b"]}]}",
    "/v1/tasks/upright/observe": b'{"labels": [1], "rows": [' + MANY + b"]}",
    "/v1/tasks/upright/extend": b'{"rows": [[1]], "labels": [' + MANY + b"]}",
    "/v1/tasks/new/learn": b'{"x": [[1]], "y": [[' + MANY + b"]]}",
}


@pytest.mark.parametrize("path", LARGE)
def test_a_large_body_does_not_stop_other_requests(service: Running, path: str) -> None:
    """Whatever is large in it, no thread of the service makes millions of Python objects of it."""
    statuses: list[int] = []

    def send() -> None:
        headers = {"Content-Type": "application/json"}
        statuses.append(
            httpx.post(service.address + path, content=LARGE[path], headers=headers, timeout=300).status_code
        )

    longest = 0.0
    with httpx.Client(base_url=service.address, timeout=300) as http:
        thread = threading.Thread(target=send)
        thread.start()
        while thread.is_alive():
            began = time.monotonic()
            assert http.get("/healthz").status_code == 200
            longest = max(longest, time.monotonic() - began)
    assert statuses[0] in (413, 422)
    assert longest < 2.0


def test_large_rows_by_column_name_are_parsed_in_parts() -> None:
    parser = Parser(Limits(parse_seconds=60, table_cells=300_000), MOST_REST)
    rows = [{"a": at, "b": "x" * (at % 7), "c": None} for at in range(100_000)]
    try:
        found, array = parser.parse_here(orjson.dumps({"rows": rows, "task": "t"}), "rows", MOST)
        assert array is None
        assert found == {"rows": rows, "task": "t"}
        for bad in (b'{"a": []}', b'{"a": {}}', b"[1]", b'"a"'):
            with pytest.raises(DataError, match="row 1 of rows"):
                parser.parse_here(b'{"rows": [{"a": 1}, ' + bad + b"]}", "rows", MOST)
        with pytest.raises(ServeError, match="300,003 values"):
            parser.parse_here(orjson.dumps({"rows": [*rows, rows[0]]}), "rows", MOST)
        with pytest.raises(ServeError, match="too much beside"):
            parser.parse_here(b'{"rows": [[1]], "more": "' + b"a" * MOST_REST + b'"}', "rows", MOST)
    finally:
        parser.stop()


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
    parser = Parser(Limits(parse_seconds=60), MOST_REST)
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
    parser = Parser(Limits(parse_seconds=0.0), MOST_REST)
    try:
        with pytest.raises(ServeError, match="in time"):
            parser.parse_here(b'{"rows": [' + b"[1]," * 1_000_000 + b"[1]]}", "rows", MOST)
        parser.limits = Limits()
        assert parser.parse_here(b'{"rows": [[1]]}', "rows", MOST)[1] is not None
    finally:
        parser.stop()
