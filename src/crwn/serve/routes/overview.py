"""Endpoints about the service as a whole: health, metrics, the model, the map of contexts."""

from __future__ import annotations

import time
from typing import Annotated

import orjson
from fastapi import APIRouter, FastAPI, Query, Request, Response

from crwn import __version__
from crwn.errors import BankError
from crwn.models import network_of
from crwn.serve.errors import ServeError, documented
from crwn.serve.schemas import Atlas, Health, ModelFacts
from crwn.serve.service import service_of

router = APIRouter(tags=["overview"], responses=documented(403))

_PROMETHEUS = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text format"}


@router.get("/healthz")
async def health(request: Request) -> Health:
    """Whether the service runs and reaches its bank."""
    service = service_of(request)
    return Health(
        status="ok",
        tasks=await service.bank_calls.call(len, service.learner.bank),
        model=service.learner.fingerprint,
        uptime_seconds=round(time.monotonic() - service.began, 1),
        learning=len(service.jobs),
    )


@router.get("/metrics", response_class=Response, responses={200: _PROMETHEUS})
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    service = service_of(request)
    try:
        text = await service.bank_calls.call(service.measure)
    except (BankError, ServeError):
        text = service.metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4")


@router.get("/v1/model")
async def model(request: Request) -> ModelFacts:
    """The model that all tasks share, and what this service allows."""
    service = service_of(request)
    learner = service.learner
    shape = learner.input_shape
    return ModelFacts(
        kind=network_of(learner.model).kind,
        fingerprint=learner.fingerprint,
        input_shape=None if shape is None else list(shape),
        outputs=learner.outputs,
        params_per_task=service.params_per_task,
        numbers_per_task=service.params_per_task,
        tasks=await service.bank_calls.call(len, learner.bank),
        read_only=service.access.read_only,
        token_needed=service.access.token is not None,
        version=__version__,
    )


@router.get("/v1/atlas", responses=documented(422))
async def atlas(request: Request, limit: Annotated[int, Query(ge=1, le=300)] = 300) -> Atlas:
    """Contexts on a map where similar ones lie close together; with more tasks than `limit`, an even selection."""
    service = service_of(request)
    return await service.listings.change(service.atlas.make, min(limit, service.limits.atlas_tasks))


@router.get("/openapi.json", include_in_schema=False)
async def description(request: Request) -> Response:
    """The OpenAPI description of all endpoints, which is made once: that takes as long as many predictions."""
    state = request.app.state
    state.described = state.described or await service_of(request).listings.change(_describe, request.app)
    return Response(state.described, media_type="application/json")


def _describe(app: FastAPI) -> bytes:
    return orjson.dumps(app.openapi())
