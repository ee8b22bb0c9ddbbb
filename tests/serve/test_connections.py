"""Connections that are not used: closed after a while, and never in the way of those that are."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

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
