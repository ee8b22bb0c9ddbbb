"""The ASGI middlewares around every request, from the innermost to the outermost in the order of this file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crwn.serve.access import Access, host_and_authorization
from crwn.serve.errors import ServeError, error_response
from crwn.serve.metrics import Metrics
from crwn.serve.names import TASKS_PATH

log = logging.getLogger("crwn.serve")

SECURITY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")


class HttpMiddleware:
    """Base class: `handle` receives HTTP requests, everything else passes unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


def on_start(send: Send, observe: Callable[[Message], None]) -> Send:
    """Wraps `send` so that `observe` is called with the message that starts the response, before it is sent."""

    async def observed(message: Message) -> None:
        if message["type"] == "http.response.start":
            observe(message)
        await send(message)

    return observed


class SecurityHeaders(HttpMiddleware):
    """Adds headers that forbid browsers to guess content types and to send referrers."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        def add(message: Message) -> None:
            message["headers"] += SECURITY_HEADERS

        await self.app(scope, receive, on_start(send, add))


class EncodedTaskNames(HttpMiddleware):
    """Routes by the path as it was sent, so that a slash inside a task name (`%2F`) does not separate segments.

    Servers decode the path before routing, which would make `/v1/tasks/a%2Flearn` and `/v1/tasks/a/learn` the same.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if raw is not None and scope["path"].startswith(TASKS_PATH):
            # In place: the router adds the route to this dictionary, and RequestMetrics reads it there.
            scope["path"] = raw.split(b"?", 1)[0].decode("latin-1")
        await self.app(scope, receive, send)


class CheckHost(HttpMiddleware):
    """Rejects requests whose Host header is not allowed."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        super().__init__(app)
        self.access = access

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.access.check_read(*host_and_authorization(scope["headers"]))
        except ServeError as error:
            await error_response(error)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class RequestMetrics(HttpMiddleware):
    """Counts and times requests by route pattern; the path itself would make a new time series for every client."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self.metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 500

        def note(message: Message) -> None:
            nonlocal status
            status = message["status"]

        try:
            await self.app(scope, receive, on_start(send, note))
        finally:
            route = scope["route"].path if "route" in scope else "none"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - began)


class UnexpectedErrors(HttpMiddleware):
    """Logs exceptions that no handler caught and responds with a 500 that reveals nothing about them."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        def note(_: Message) -> None:
            nonlocal started
            started = True

        try:
            await self.app(scope, receive, on_start(send, note))
        except Exception:
            log.exception("unexpected error in %s %r", scope["method"], scope["path"])
            if not started:
                await error_response(ServeError.internal())(scope, receive, send)
