"""Connections within limits: requests that never arrive, clients that never read, and too many of either are closed."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from crwn.serve.limits import Limits

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # httptools is not installed
    HttpToolsProtocol = None  # type: ignore[assignment, misc]

log = logging.getLogger("crwn.serve")

Connection = Any  # a uvicorn protocol with the mixin below
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
SWEEP_SECONDS = 1.0


class Connections:
    """The open connections of one server.

    Where there are too many, the one that has waited longest for its first request is closed, or else the one that
    was idle longest: whoever opens connections without using them closes his own.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.open: dict[Connection, None] = {}  # in the order in which they were opened
        self.by_address: Counter[str] = Counter()
        self._sweep: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        self.open[connection] = None
        self.by_address[connection.address] += 1
        if self._sweep is None:
            self._sweep = connection.loop.call_later(SWEEP_SECONDS, self._close_stale, connection.loop)
        if self.by_address[connection.address] > self.limits.connections_per_address:
            self._make_room([one for one in self.open if one.address == connection.address])
        elif len(self.open) > self.limits.connections:
            self._make_room(list(self.open))

    def remove(self, connection: Connection) -> None:
        if connection in self.open:
            del self.open[connection]
            self.by_address[connection.address] -= 1
            if not self.by_address[connection.address]:
                del self.by_address[connection.address]

    def _make_room(self, candidates: list[Connection]) -> None:
        idle = [one for one in candidates if not one.working]
        # Those without any request yet come first, then those that are idle longest.
        chosen = min(idle or candidates[-1:], key=lambda one: (one.served, one.since))
        log.warning("too many connections, of %s or in all: the one that is idle longest is closed", chosen.address)
        self.remove(chosen)
        chosen.transport.abort()

    def _close_stale(self, loop: asyncio.AbstractEventLoop) -> None:
        moment, limits = time.monotonic(), self.limits
        for one in list(self.open):
            waited = moment - one.since
            if one.working:
                if one.stalled_since is not None and moment - one.stalled_since > limits.stalled_seconds:
                    one.transport.abort()
            elif waited > (limits.head_seconds if one.head_bytes or not one.served else limits.idle_seconds):
                one.transport.abort()
        self._sweep = loop.call_later(SWEEP_SECONDS, self._close_stale, loop) if self.open else None


class _Bounded:
    """Mixin of uvicorn's protocols: measures how long a connection waits, and how large the head of a request is."""

    bounds: Connections  # set on the subclass of one server

    def connection_made(self, transport: Any) -> None:
        self.since = time.monotonic()  # when it was opened, or its last request ended or began
        self.head_bytes = 0  # received of a request whose head is not complete
        self.served = 0
        self.stalled_since: float | None = None
        self.other_bytes = 0  # received since the last part of a body: its trailers, which nothing else bounds
        self.receiving = False  # a body, also one whose request is answered already
        self.deaf = False
        super().connection_made(transport)  # type: ignore[misc]
        client = self.client  # type: ignore[attr-defined]
        self.address = client[0] if client else ""
        self.bounds.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.remove(self)
        super().connection_lost(exc)  # type: ignore[misc]

    @property
    def working(self) -> bool:
        """Whether a request is being answered, or its body received."""
        cycle = self.cycle  # type: ignore[attr-defined]
        return cycle is not None and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            return
        before = self.cycle  # type: ignore[attr-defined]
        if self.working or self.receiving:
            self.other_bytes += len(data)
        else:
            if not self.head_bytes:
                self.since = time.monotonic()
                data = without_upgrade(data)
            self.head_bytes += len(data)
        super().data_received(data)  # type: ignore[misc]
        if self.cycle is not before:  # type: ignore[attr-defined]
            self.head_bytes = self.other_bytes = 0
        elif self.head_bytes > self.bounds.limits.head_bytes:
            self.transport.write(_TOO_LONG)  # type: ignore[attr-defined]
            self.transport.close()  # type: ignore[attr-defined]
        elif self.other_bytes > self.bounds.limits.head_bytes:
            self.transport.abort()  # type: ignore[attr-defined]

    def on_headers_complete(self) -> None:
        self.receiving = True
        super().on_headers_complete()  # type: ignore[misc]

    def on_message_complete(self) -> None:
        self.receiving = False
        super().on_message_complete()  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        self.other_bytes = 0
        super().on_body(body)  # type: ignore[misc]

    def _unsupported_upgrade_warning(self) -> None:
        """Of a head that came in parts: httptools takes the body for another protocol, which must not be answered."""
        self.deaf = True
        self.cycle.keep_alive = False  # type: ignore[attr-defined]

    def on_response_complete(self) -> None:
        self.served += 1
        self.since = time.monotonic()
        super().on_response_complete()  # type: ignore[misc]

    def pause_writing(self) -> None:
        self.stalled_since = time.monotonic()
        super().pause_writing()  # type: ignore[misc]

    def resume_writing(self) -> None:
        self.stalled_since = None
        super().resume_writing()  # type: ignore[misc]


def without_upgrade(data: bytes) -> bytes:
    """The data of a request without the wish for another protocol in its head: its body would not be read.

    Clients ask for HTTP/2 in that way. This service speaks HTTP/1.1 only, and may ignore it.

    >>> without_upgrade(b"POST / HTTP/1.1\\r\\nUpgrade: h2c\\r\\n\\r\\nUpgrade: no header")
    b'POST / HTTP/1.1\\r\\nIgnored: h2c\\r\\n\\r\\nUpgrade: no header'
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or not _UPGRADE.search(head):
        return data
    return _UPGRADE.sub(b"\r\nIgnored:", head) + end + rest


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """A protocol class for one server: httptools where it is installed, h11 otherwise, within these limits.

    With h11 a connection is closed where a request was answered before its body had arrived.
    """
    base: Any = H11Protocol if HttpToolsProtocol is None else HttpToolsProtocol
    return type("BoundedProtocol", (_Bounded, base), {"bounds": Connections(limits)})
