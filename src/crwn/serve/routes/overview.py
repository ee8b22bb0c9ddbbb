"""Addresses that say how things are: health, counters, the model, the atlas, and the web page."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from crwn import __version__
from crwn.errors import BankError
from crwn.serve.errors import ServeError, documented
from crwn.serve.schemas import Atlas, Health, ModelFacts
from crwn.serve.service import service_of

router = APIRouter(responses=documented(403))

_PAGE = {
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_SCRIPTS = ("page.js", "api.js", "tasks.js", "atlas.js", "playground.js", "teach.js", "drawing.js")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/healthz", tags=["overview"])
def health(request: Request) -> Health:
    """Whether the service can answer."""
    service = service_of(request)
    return Health(
        status="ok",
        tasks=len(service.learner.bank),
        model=service.learner.fingerprint,
        uptime_seconds=round(time.monotonic() - service.began, 1),
        learning=len(service.jobs),
    )


@router.get(
    "/metrics",
    tags=["overview"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text"}},
)
def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    try:
        text = service_of(request).measure()
    except BankError:
        text = service_of(request).metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4")


@router.get("/v1/model", tags=["overview"])
def model(request: Request) -> ModelFacts:
    """The model that all tasks share, and what this service allows."""
    service = service_of(request)
    learner = service.learner
    shape = learner.input_shape
    return ModelFacts(
        kind=getattr(learner.model, "kind", type(learner.model).__name__),
        fingerprint=learner.fingerprint,
        input_shape=None if shape is None else list(shape),
        outputs=learner.outputs,
        numbers_per_task=sum(tensor.numel() for tensor in learner._start.values()),
        tasks=len(learner.bank),
        read_only=service.access.read_only,
        token_needed=service.access.token is not None,
        version=__version__,
    )


@router.get("/v1/atlas", tags=["overview"], responses=documented(422))
def atlas(request: Request, limit: Annotated[int, Query(ge=1, le=300)] = 300) -> Atlas:
    """Contexts on a map, where alike ones lie together; of very many tasks an even choice."""
    service = service_of(request)
    return service.atlas.make(min(limit, service.limits.atlas_tasks))


@router.get("/", include_in_schema=False)
def page() -> Response:
    return _file("page.html", "text/html; charset=utf-8")


@router.get("/page/{name}", include_in_schema=False)
def page_file(name: str) -> Response:
    kinds = _PAGE | dict.fromkeys(_SCRIPTS, "text/javascript; charset=utf-8")
    if name not in kinds:
        raise ServeError(404, "not_found", "there is no such file")
    return _file(name, kinds[name])


def _file(name: str, kind: str) -> Response:
    data = (files("crwn.serve") / "page" / name).read_bytes()
    return Response(data, media_type=kind, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})
