"""Attacks over HTTP with bodies: what surrounds them, how many there are at once, and what is large inside them."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import ExitStack, suppress

import httpx
import psutil
from attack_target import FEATURES, Attack, Outcome, Target

ROW = [0.5] * FEATURES
JSON, CSV = {"Content-Type": "application/json"}, {"Content-Type": "text/csv"}
POST = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
MANY = b"[]," * 5_000_000 + b"[]"
MOST_SENT = 20_000_000  # bytes of trailers
MOST_MEMORY = 1.6e9  # bytes that the service may grow by


def endless_trailers(target: Target, out: Outcome, share: float) -> None:
    """Headers that follow a chunked body without an end."""
    lines = (b"X-More: " + b"a" * 1000 + b"\r\n") * 1000
    for _ in range(max(2, int(20 * share))):
        sent = 0
        with target.connect() as line, suppress(OSError):
            line.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
            while sent < 10 * MOST_SENT:
                sent += line.send(lines)
        out.check(sent < MOST_SENT, f"{sent:,} bytes of trailers were taken")


def bodies_at_once(target: Target, out: Outcome, share: float) -> None:
    """Many bodies of almost 16 MB that never end: together they must not fill the memory."""
    service, part = psutil.Process(target.process.pid), bytes(2**20)
    before = service.memory_info().rss
    with ExitStack() as stack:
        lines = [stack.enter_context(target.connect()) for _ in range(max(20, int(150 * share)))]
        for line in lines:
            line.sendall(POST + b"Content-Length: 16000000\r\n\r\n")
        for _ in range(14):
            for line in lines:
                with suppress(OSError):
                    line.sendall(part)
        out.tries += len(lines)
        with target.client() as http:
            out.add(http.get("/healthz").status_code, 200)
        grown = service.memory_info().rss - before
        out.check(grown < MOST_MEMORY, f"{grown / 1e9:.1f} GB were taken for {len(lines)} bodies")


def other_protocols(target: Target, out: Outcome, share: float) -> None:
    """A wish for HTTP/2 or WebSocket, and two hosts: one answer each, and a body is never a second request."""
    data = json.dumps({"rows": [ROW], "task": "first"}).encode()
    inner = b"DELETE /v1/tasks/first HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for _ in range(max(2, int(20 * share))):
        for name in (b"h2c", b"websocket"):
            head = POST + b"Connection: Upgrade\r\nUpgrade: " + name + b"\r\nContent-Length: %d\r\n\r\n" % len(data)
            with target.connect(5) as line:
                line.sendall(head + data)
                out.add(line.recv(100)[9:12].decode(), "200")
            with target.connect(5) as line, suppress(OSError):
                line.sendall(head[:30])
                time.sleep(0.05)
                line.sendall(head[30:])
                time.sleep(0.05)
                line.sendall(inner)
                answers = b""
                while part := line.recv(65536):
                    answers += part
                out.check(answers.count(b"HTTP/1.1 ") == 1, f"{answers.count(b'HTTP/1.1 ')} answers to one request")
        for request in (b"GET /v1/tasks", b"POST /v1/predict"):
            with target.connect(5) as line:
                line.sendall(
                    request + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n"
                )
                out.add(line.recv(100)[9:12].decode(), "400")
    with target.client() as http:
        out.add(http.get("/v1/tasks/first").status_code, 200)


def large_fields(target: Target, out: Outcome, share: float) -> None:
    """15 MB of empty lists wherever a body may have something."""
    bodies = {
        "/v1/predict": b'{"rows": [[1]], "more": [' + MANY + b"]}",
        "/v1/infer-task": b'{"rows": [{"a": [' + MANY + b"]}]}",
        "/v1/classify": b'{"rows": {"a": [' + MANY + b"]}}",
        "/v1/tasks/first/observe": b'{"labels": [1], "rows": [' + MANY + b"]}",
        "/v1/tasks/first/extend": b'{"rows": [[1]], "labels": [' + MANY + b"]}",
        "/v1/tasks/first/share": b'{"rows": [[1]], "labels": [[' + MANY + b"]]}",
        "/v1/tasks/large/learn": b'{"x": [[1]], "y": [[' + MANY + b"]]}",
    }
    with httpx.Client(base_url=target.address, timeout=120) as http:
        for path in list(bodies)[: max(2, int(len(bodies) * share))]:
            out.add(http.post(path, content=bodies[path], headers=JSON).status_code, 413, 422)


def table_bombs(target: Target, out: Outcome, share: float) -> None:
    """Archives of tables with many short cells, and a large table of numbers that all have one label."""
    head = b",".join(b"c%d" % i for i in range(FEATURES)) + b",label\n"
    row = b",".join([b"10.5"] * FEATURES) + b",y\n"
    tables = [
        gzip.compress(b"a,label\n" + b"1,2\n" * 25_000_000, 1),
        gzip.compress(head + (b"10," * FEATURES + b"y\n") * 500_000, 1),
        head + row * int(200_000 * share),
    ]
    for data in tables:
        for _ in range(max(1, int(3 * share))):
            response = httpx.post(f"{target.address}/v1/tasks/t/learn", content=data, headers=CSV, timeout=120)
            out.add(response.status_code, 413, 422)


ATTACKS: tuple[Attack, ...] = (endless_trailers, bodies_at_once, other_protocols, large_fields, table_bombs)
