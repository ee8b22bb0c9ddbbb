"""Who may write: tokens, loopback, other web sites, read-only services, and limits."""

from __future__ import annotations

import io
import socket
import time
import zipfile

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

import crwn
from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.app import make_app
from crwn.serve.client import RemoteError
from crwn.serve.limits import Limits
from crwn.serve.running import make_server, open_socket
from serving import Running, running

TOKEN = "correct-horse-battery"
WRITES = [
    ("DELETE", "/v1/tasks/upright"),
    ("POST", "/v1/tasks/new/learn"),
    ("PUT", "/v1/tasks/new/context"),
    ("DELETE", "/v1/jobs/none"),
]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_open_hosts_need_a_token(learner: Learner, host: str) -> None:
    with pytest.raises(ConfigError, match="give a token"):
        make_server(learner, host=host)
    with pytest.raises(ConfigError, match="too weak"):
        make_server(learner, host=host, token="short")
    make_server(learner, host=host, token=TOKEN)


@pytest.mark.parametrize(("method", "address"), WRITES)
@pytest.mark.parametrize(
    "header", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer \xff"]
)
def test_writing_needs_the_token(learner: Learner, method: str, address: str, header: str | None) -> None:
    with TestClient(make_app(learner, token=TOKEN), client=("127.0.0.1", 5)) as http:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        answer = http.request(method, address, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "token_needed"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert http.get("/v1/tasks").json()["total"] == 2


def test_the_right_token_writes_from_anywhere(learner: Learner) -> None:
    with TestClient(make_app(learner, token=TOKEN), client=("203.0.113.9", 5), base_url="http://example.org") as http:
        assert http.delete("/v1/tasks/upright", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 204
        assert http.get("/v1/tasks").json()["total"] == 1


@pytest.mark.parametrize(("method", "address"), WRITES)
def test_without_a_token_only_this_machine_writes(learner: Learner, method: str, address: str) -> None:
    outside = ("203.0.113.9", 5)
    with TestClient(make_app(learner), client=outside, base_url="http://127.0.0.1:8080") as http:
        answer = http.request(method, address)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_loopback")
    with TestClient(make_app(learner), client=("127.0.0.1", 5), base_url="http://127.0.0.1:8080") as http:
        answer = http.request(method, address, headers={"X-Forwarded-For": "203.0.113.9"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_loopback")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8080"):
            answer = http.request(method, address, headers={"Origin": origin})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        for site in ("cross-site", "same-site"):
            answer = http.request(method, address, headers={"Sec-Fetch-Site": site})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        answer = http.request(method, address, headers={"Origin": "http://127.0.0.1:8080"})
        assert answer.status_code != 403
    assert "mirrored" in learner.tasks


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::bad"])
def test_names_of_other_machines_are_refused(learner: Learner, host: str) -> None:
    with TestClient(make_app(learner), client=("127.0.0.1", 5)) as http:
        for method, address in (("GET", "/v1/tasks"), ("DELETE", "/v1/tasks/upright")):
            answer = http.request(method, address, headers={"Host": host})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_host")
        for own in ("localhost", "localhost:8080", "127.0.0.1", "[::1]:8080"):
            assert http.get("/v1/tasks", headers={"Host": own}).status_code == 200


@pytest.mark.parametrize(("method", "address"), WRITES)
def test_read_only_never_writes(learner: Learner, method: str, address: str) -> None:
    with TestClient(make_app(learner, read_only=True, token=TOKEN)) as http:
        answer = http.request(method, address, headers={"Authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")
    assert learner.tasks == ["mirrored", "upright"]


def test_no_other_site_is_let_in(service: Running) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = httpx.options(f"{service.address}/v1/tasks/upright", headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
    page = httpx.get(service.address)
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


def test_bodies_over_the_limit_stop_while_they_stream(learner: Learner, small_limits: Limits) -> None:
    with running(learner, limits=small_limits) as served:

        def endless(part: bytes = b"0" * 10_000) -> object:
            for _ in range(100):
                yield part

        for address, kind in (("/v1/predict", "application/json"), ("/v1/tasks/n/learn", "text/csv")):
            headers = {"Content-Type": kind}
            answer = httpx.post(served.address + address, content=endless(), headers=headers)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        answer = httpx.post(f"{served.address}/v1/predict", content=b"0" * 100_001)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        with crwn.Client(served.address) as client:
            with pytest.raises(RemoteError) as refused:
                client.predict(np.zeros((101, 64), dtype=np.uint8), "upright")
            assert (refused.value.status, refused.value.code) == (413, "too_many_rows")


def test_archives_that_unpack_to_too_much(learner: Learner, small_limits: Limits) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            file = io.BytesIO()
            np.save(file, np.zeros((10_000, 64), dtype=np.uint8))
            archive.writestr(name, file.getvalue())
    with running(learner, limits=small_limits) as served:
        headers = {"Content-Type": "application/x-npz"}
        answer = httpx.post(f"{served.address}/v1/tasks/n/learn", content=packed.getvalue(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_bodies_that_never_end(learner: Learner) -> None:
    with running(learner, limits=Limits(body_seconds=0.5)) as served:
        port = int(served.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
            began = time.monotonic()
            assert b"408" in line.recv(4096)
            assert time.monotonic() - began < 10


def test_a_taken_port_is_one_clear_line() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="choose another with --port"),
    ):
        open_socket("127.0.0.1", taken.getsockname()[1])
