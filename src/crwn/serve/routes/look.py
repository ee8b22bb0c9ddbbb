"""The endpoint that shows where in an image a context looks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from crwn.insight.eye import look
from crwn.learner import Learner
from crwn.models import ImageFlyNet
from crwn.serve import body
from crwn.serve.asked import read_question
from crwn.serve.body import Array
from crwn.serve.errors import ServeError, documented
from crwn.serve.schemas import BINARY, PredictRequest, body_of, json_label
from crwn.serve.service import service_of

MOST_IMAGES = 16

router = APIRouter(prefix="/v1", tags=["predict"], responses=documented(400, 403, 404, 408, 413, 415, 422))


class Looks(BaseModel):
    """Where a context looks in images."""

    task: str
    labels: list[Any] = Field(description="what the task predicts for each image")
    maps: list[list[list[float]]] = Field(
        description="of each image, line by line: what speaks for its label; negative speaks against it"
    )


@router.post(
    "/look",
    response_model=Looks,
    openapi_extra=body_of({}, **{body.JSON: PredictRequest, body.NPY: BINARY, body.RAW: BINARY}),
)
async def look_at(request: Request) -> Looks:
    """Where in images the context of a task finds what speaks for or against its prediction.

    The body is that of a prediction with one task, at most 16 images, for a model that encodes images.
    """
    service = service_of(request)
    if not isinstance(service.learner.model, ImageFlyNet):
        raise ServeError(422, "no_images", "this model does not encode images: only predictions are available")
    asked = await read_question(service, request.scope, request.receive, PredictRequest)
    if not isinstance(asked.task, str):
        raise ServeError(422, "invalid_option", "name one task for all images")
    if len(asked.x) > MOST_IMAGES:
        raise ServeError(413, "too_many_rows", f"{len(asked.x):,} images at once: send at most {MOST_IMAGES}")
    return await service.bank_calls.call(_look, service.learner, asked.x, asked.task)


def _look(learner: Learner, x: Array, task: str) -> Looks:
    labels, maps = look(learner, x, task)
    return Looks(task=task, labels=[json_label(label) for label in labels], maps=maps.tolist())
