"""Connections that are not used: closed after a while, and never in the way of those that are."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from crwn.learner import Learner
from crwn.serve.limits import Limits
from serving import Array, Running, running, wait_until

HALF = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/js"


@contextmanager
def opened(served: Running, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections on which only these bytes were sent."""
    address = ("127.0.0.1", int(served.address.rpartition(":")[2]))
    several = [socket.create_connection(address) for _ in range(count)]
    try:
        for one in several:
            one.sendall(sent)
        yield several
    finally:
        for one in several:
            one.close()


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed this connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1000) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_requests_that_never_arrive_are_ended(learner: Learner) -> None:
    limits = Limits(head_seconds=0.2, idle_seconds=0.2)
    with running(learner, limits=limits) as served:
        for sent in (b"", HALF, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
            with opened(served, 3, sent) as several:
                for one in several:
                    wait_until(lambda one=one: closed(one), "the connection is closed")  # type: ignore[misc]


def test_a_body_that_never_arrives_is_ended(learner: Learner) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
    with (
        running(learner, limits=Limits(body_seconds=0.2, idle_seconds=0.2)) as served,
        opened(served, 1, head) as (one,),
    ):
        assert one.recv(1000).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: closed(one), "the connection is closed")


def test_new_clients_are_answered_however_many_connections_are_idle(
    learner: Learner, digits: tuple[Array, Array]
) -> None:
    body = {"rows": digits[0][:1].tolist(), "task": "upright"}
    limits = Limits(connections=24, connections_per_address=16)
    with running(learner, limits=limits) as served, httpx.Client(base_url=served.address) as used:
        assert used.post("/v1/predict", json=body).status_code == 200
        with opened(served, 40) as idle, opened(served, 40, HALF) as half:
            assert httpx.post(f"{served.address}/v1/predict", json=body).status_code == 200
            # The connection that has been used is kept: those that never sent a request are closed first.
            assert used.post("/v1/predict", json=body).status_code == 200
            assert sum(not closed(one) for one in [*idle, *half]) <= 16


def test_endless_heads_are_refused(learner: Learner) -> None:
    with running(learner, limits=Limits(head_bytes=10_000)) as served, opened(served, 1) as (one,):
        one.sendall(b"GET /healthz HTTP/1.1\r\n")
        line = b"X-More: " + b"a" * 1000 + b"\r\n"
        try:
            for _ in range(1000):
                one.sendall(line)
            assert one.recv(100).startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        except (ConnectionResetError, BrokenPipeError):
            pass  # closed while it was still sending
        assert httpx.get(f"{served.address}/healthz").status_code == 200


def test_endless_trailers_are_refused(learner: Learner) -> None:
    """Headers after a body of unknown length: nothing else limits them, and all are kept in memory."""
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    trailers = (b"X-More: " + b"a" * 1000 + b"\r\n") * 1000
    with running(learner) as served, opened(served, 1, head) as (one,):
        sent = 0
        try:
            while sent < 100_000_000:
                sent += one.send(trailers)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert sent < 20_000_000
        assert httpx.get(f"{served.address}/healthz").status_code == 200


def test_bodies_in_many_small_parts_are_read(learner: Learner, digits: tuple[Array, Array]) -> None:
    data = json.dumps({"rows": digits[0][:40].tolist(), "task": "upright"}).encode()
    with running(learner, limits=Limits(head_bytes=2000)) as served:
        parts = (data[at : at + 7] for at in range(0, len(data), 7))
        assert httpx.post(f"{served.address}/v1/predict", content=parts).status_code == 200


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_body_is_not_taken_for_another_protocol(learner: Learner, digits: tuple[Array, Array], pause: float) -> None:
    """Clients that prefer HTTP/2 ask for it in their first request. With a pause, its head comes in two packets."""
    data = json.dumps({"rows": digits[0][:1].tolist(), "task": "upright"}).encode()
    lines = ["POST /v1/predict HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}", "Upgrade: h2c"]
    head = "\r\n".join([*lines, "Connection: Upgrade, HTTP2-Settings", "", ""]).encode()
    inner = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(learner) as served, opened(served, 1) as (one,):
        one.settimeout(20)
        one.sendall(head[:40] if pause else head + data)
        if pause:
            time.sleep(pause)
            one.sendall(head[40:])
            time.sleep(pause)
            one.sendall(inner + data)  # what would be a second request if the body were not one
        answer = one.recv(10_000)
        if pause:
            while part := one.recv(10_000):
                answer += part
            assert answer.count(b"HTTP/1.1 ") == 1
        else:
            assert answer.startswith(b"HTTP/1.1 200 ")


def test_two_host_headers_are_refused(learner: Learner) -> None:
    with running(learner) as served:
        for request in (b"GET /healthz", b"POST /v1/predict"):
            for hosts in (b"Host: 127.0.0.1\r\nHost: evil.example", b"Host: evil.example\r\nHost: 127.0.0.1"):
                with opened(served, 1, request + b" HTTP/1.1\r\n" + hosts + b"\r\nContent-Length: 0\r\n\r\n") as (one,):
                    assert one.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_the_body_of_a_request_that_was_answered_early_is_not_taken_for_a_head(learner: Learner) -> None:
    size = 400_000
    head = f"POST /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n".encode()
    again = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(learner) as served, opened(served, 1, head) as (one,):
        one.settimeout(10)
        assert received(one).startswith(b"HTTP/1.1 404 ")  # before any of the body
        for _ in range(8):
            one.sendall(b"x" * (size // 8))
            time.sleep(0.02)  # so that it arrives in several parts
        one.sendall(again)
        assert received(one).startswith(b"HTTP/1.1 200 ")


def received(one: socket.socket) -> bytes:
    """One whole response, which may arrive in parts."""
    head, end, body = b"", b"", b""
    while not end:
        head, end, body = (head + one.recv(1)).partition(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < size:
        body += one.recv(size - len(body))
    return head + end + body


def test_the_body_of_a_request_that_was_answered_early_ends_with_the_idle_time(learner: Learner) -> None:
    head = b"POST /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n\r\n"
    with running(learner, limits=Limits(idle_seconds=0.5)) as served, opened(served, 1, head) as (one,):
        one.settimeout(10)
        assert one.recv(10_000).startswith(b"HTTP/1.1 404 ")
        began = time.monotonic()

        def send_a_part() -> bool:
            """Whether the connection is still open."""
            time.sleep(0.05)
            try:
                one.sendall(b"x")
            except ConnectionError:
                return False
            return time.monotonic() - began < 10

        while send_a_part():
            pass
        assert time.monotonic() - began < 8
