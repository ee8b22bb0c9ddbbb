"""Load for the benchmark of the service: connections that send a request, wait for the response, and send the next."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from crwn.errors import CRWNError


class _Connection(asyncio.Protocol):
    """One connection; its requests are taken in turn from those of the load."""

    def __init__(self, requests: Sequence[bytes], first: int, until: float, times: list[float]) -> None:
        self.requests, self.next, self.until, self.times = requests, first, until, times
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent = 0.0
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.sent = time.perf_counter()
        if self.sent >= self.until:
            self.transport.close()
            return
        self.transport.write(self.requests[self.next % len(self.requests)])
        self.next += 7

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        start = self.received.find(b"content-length:", 0, end) + 15
        length = int(self.received[start : self.received.find(b"\r\n", start)])
        if len(self.received) < end + 4 + length:
            return
        if not self.received.startswith(b"HTTP/1.1 200"):
            self._fail(self.received[: self.received.find(b"\r\n")].decode("latin-1"))
            return
        self.times.append(time.perf_counter() - self.sent)
        self.received = b""
        self._send()

    def _fail(self, line: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(CRWNError(f"the service responded {line!r} under load"))
        self.transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _same(connection: _Connection) -> _Connection:
    return connection


async def run_load(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> dict[str, float]:
    """Requests a second and waiting times of so many connections that are busy for this long."""
    times: list[float] = []
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    opened = [_Connection(requests, i, began + seconds, times) for i in range(connections)]
    for one in opened:
        await loop.create_connection(partial(_same, one), "127.0.0.1", port)
    await asyncio.gather(*(one.ended for one in opened))
    passed = time.perf_counter() - began
    p50, p99 = np.percentile(times or [float("nan")], [50, 99]) * 1000
    return {
        "requests": len(times),
        "requests_per_second": round(len(times) / passed, 1),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
    }


def json_request(port: int, row: Sequence[float], task: str) -> bytes:
    """One row as JSON."""
    data = json.dumps({"rows": [list(row)], "task": task}).encode()
    return _request(port, "/v1/predict", data, "Content-Type: application/json")


def raw_request(port: int, rows: np.ndarray[Any, np.dtype[np.float32]], tasks: Sequence[str]) -> bytes:
    """Rows as raw numbers, each with its task."""
    names = json.dumps(list(tasks)).encode()
    shape = ",".join(str(side) for side in rows.shape)
    head = f"Content-Type: application/octet-stream\r\nX-Shape: {shape}\r\nX-Tasks-Bytes: {len(names)}"
    return _request(port, "/v1/predict", names + rows.astype("<f4").tobytes(), head)


def _request(port: int, path: str, data: bytes, head: str) -> bytes:
    line = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{head}\r\nContent-Length: {len(data)}\r\n\r\n"
    return line.encode() + data
