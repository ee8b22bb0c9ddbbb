"""Predictions and task inference without the framework's routing, which would take longer than the prediction.

The endpoints are described, and can also be reached, in `routes/predict.py`; this does for them what the other
middlewares do for all routes: the check of the host, metrics, errors and headers. Event streams beyond the limit are
refused here too: a burst of hundreds would otherwise keep predictions waiting for as long as the routing of all takes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from crwn.errors import CRWNError
from crwn.serve.access import host_and_authorization
from crwn.serve.errors import ServeError
from crwn.serve.middleware import SECURITY_HEADERS, HttpMiddleware
from crwn.serve.routes.jobs import check_streams
from crwn.serve.routes.predict import answer_infer, answer_predict
from crwn.serve.service import Service

log = logging.getLogger("crwn.serve")

Answer = Callable[[Service, Scope, Receive], Awaitable[bytes]]
_ANSWERS: dict[str, Answer] = {"/v1/predict": answer_predict, "/v1/infer-task": answer_infer}
_EVENTS = "/v1/jobs/{job}/events"
_JSON = (b"content-type", b"application/json")


class Direct(HttpMiddleware):
    """Answers `POST` requests of these paths; all others go on."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(app)
        self.service = service
        metrics = service.metrics
        self._good = {path: metrics.requests.labels(path, "POST", "200") for path in _ANSWERS}
        self._seconds = {path: metrics.seconds.labels(path) for path in _ANSWERS}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        answer = _ANSWERS.get(path)
        if answer is None or scope["method"] != "POST":
            if self.service.streams_full and scope["method"] == "GET" and path.startswith("/v1/jobs/"):
                await self._stream(path, scope, receive, send)
            else:
                await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        try:
            self._check_host(scope)
            found = await answer(self.service, scope, receive)
        except (CRWNError, ServeError) as error:
            await self._refuse(path, "POST", error if isinstance(error, ServeError) else ServeError.of(error), send)
        except Exception:
            log.exception("unexpected error in POST %s", path)
            await self._refuse(path, "POST", ServeError.internal(), send)
        else:
            self._good[path].inc()
            await _respond(send, 200, found, [])
        self._seconds[path].observe(time.perf_counter() - began)

    async def _stream(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses an event stream of a job, of which there are too many already; all else goes on."""
        job, _, rest = path.removeprefix("/v1/jobs/").partition("/")
        began = time.perf_counter()
        try:
            self._check_host(scope)
            if rest == "events" and job in self.service.jobs:
                check_streams(self.service)
        except ServeError as error:
            await self._refuse(_EVENTS, "GET", error, send)
            self.service.metrics.seconds.labels(_EVENTS).observe(time.perf_counter() - began)
        else:
            await self.app(scope, receive, send)

    def _check_host(self, scope: Scope) -> None:
        self.service.access.check_read(*host_and_authorization(scope["headers"]))

    async def _refuse(self, route: str, method: str, error: ServeError, send: Send) -> None:
        self.service.metrics.requests.labels(route, method, str(error.status)).inc()
        headers = [(key.lower().encode(), value.encode()) for key, value in error.headers.items()]
        await _respond(send, error.status, orjson.dumps(error.body()), headers)


async def _respond(send: Send, status: int, data: bytes, more: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *SECURITY_HEADERS, *more]})
    await send({"type": "http.response.body", "body": data})
