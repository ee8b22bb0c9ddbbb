"""The application: addresses, layers around them, and what starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from crwn import __version__
from crwn.learner import Learner
from crwn.serve import learning, overview, predicting, tasks
from crwn.serve.access import Access, OwnHost
from crwn.serve.errors import LastResort, add_handlers
from crwn.serve.limits import Limits
from crwn.serve.metrics import CountRequests
from crwn.serve.names import EncodedNames
from crwn.serve.service import Service

_ABOUT = """One frozen random network, any number of tasks.

Reading is open to whoever reaches the service. Everything that writes needs the header `Authorization: Bearer TOKEN`;
a service started without a token takes writes only from its own machine. Errors are
`{"error": {"code": "...", "message": "..."}}`. Task names stand percent-encoded in addresses, slashes as `%2F`."""


def make_app(
    learner: Learner,
    *,
    token: str | None = None,
    read_only: bool = False,
    limits: Limits | None = None,
) -> FastAPI:
    """An ASGI application that serves this learner."""
    service = Service(learner, Access(token, read_only), limits or Limits())

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await run_in_threadpool(service.stop)

    app = FastAPI(
        title="crwn", version=__version__, description=_ABOUT, lifespan=running, docs_url=None, redoc_url=None
    )
    app.state.service = service
    for room in (predicting, tasks, learning, overview):
        app.include_router(room.router)
    add_handlers(app)
    app.add_middleware(SafeHeaders)
    app.add_middleware(EncodedNames)
    app.add_middleware(OwnHost, access=service.access)
    app.add_middleware(CountRequests, metrics=service.metrics)
    app.add_middleware(LastResort)
    return app


class SafeHeaders:
    """Says to browsers: this is what it says it is, and nobody may frame it; notes the route for the counters."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                assert isinstance(headers, list)
                headers += [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
            await send(message)

        try:
            await self.app(scope, receive, with_headers)  # type: ignore[arg-type]
        finally:
            if "crwn_found" in scope and "route" in scope:
                scope["crwn_found"]["route"] = scope["route"].path


def service_of_app(app: FastAPI) -> Service:
    service: Service = app.state.service
    return service
