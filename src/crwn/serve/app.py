"""The ASGI application: routes, error handlers, middlewares, and the threads that run while it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from crwn import __version__
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.direct import Direct
from crwn.serve.errors import add_handlers
from crwn.serve.group import Group, Grouped
from crwn.serve.limits import Limits
from crwn.serve.middleware import CheckHost, EncodedTaskNames, RequestMetrics, SecurityHeaders, UnexpectedErrors
from crwn.serve.routes import ROUTERS
from crwn.serve.service import Service

_DESCRIPTION = """One frozen random network, any number of tasks.

Reading needs no token. Every request that writes needs the header `Authorization: Bearer TOKEN`; a service started
without a token accepts writes only from its own machine. Errors are `{"error": {"code": "...", "message": "..."}}`.
Task names in URLs are percent-encoded, slashes as `%2F`."""


def make_app(
    learner: Learner,
    *,
    token: str | None = None,
    read_only: bool = False,
    limits: Limits | None = None,
    hosts: Iterable[str] = (),
    group: Group | None = None,
) -> FastAPI:
    """Builds the ASGI application that serves this learner.

    `hosts` are further host names of this machine, `group` has the other processes that serve the same address.
    """
    service = Service(learner, Access(token, read_only, frozenset(name.lower() for name in hosts)), limits or Limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await run_in_threadpool(service.stop)

    app = FastAPI(
        title="crwn",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,  # `routes/overview.py` has it
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.described = b""
    for router in ROUTERS:
        app.include_router(router)
    add_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(SecurityHeaders)
    app.add_middleware(EncodedTaskNames)
    app.add_middleware(CheckHost, access=service.access)
    app.add_middleware(RequestMetrics, metrics=service.metrics)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(Direct, service=service)
    if group is not None:
        app.add_middleware(Grouped, group=group)
    return app
