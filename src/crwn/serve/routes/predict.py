"""Endpoints that predict labels and infer tasks."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Query, Request, Response
from starlette.types import Receive, Scope

from crwn.learner.answers import answer, row_probabilities
from crwn.learner.ranking import TaskScore, none_fits
from crwn.serve import body, photos
from crwn.serve.asked import Asked, read_question
from crwn.serve.batcher import Outputs
from crwn.serve.errors import documented
from crwn.serve.schemas import (
    BINARY,
    InferRequest,
    Predictions,
    PredictRequest,
    Ranking,
    body_of,
    json_label,
)
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["predict"], responses=documented(400, 403, 404, 408, 413, 415, 422))

_PREDICT_EXAMPLES = {
    "one task": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "task": "left"}},
    "a task per row": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2], [1.0, 0.0, 0.0, 0.1]], "task": ["left", "right"]}},
    "inferred": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "probabilities": True}},
    "by column name": {"value": {"rows": [{"age": 31, "city": "Bern", "visit": "2024-05-01"}], "task": "north"}},
}
_ARRAYS = {body.NPY: BINARY, body.RAW: BINARY, **dict.fromkeys(photos.TYPES, BINARY)}
_Candidates = Annotated[
    list[str] | None, Query(description="with an array as the body: try only these tasks", max_length=1000)
]


@router.post(
    "/predict",
    response_model=Predictions,
    openapi_extra=body_of(_PREDICT_EXAMPLES, **{body.JSON: PredictRequest, **_ARRAYS}),
)
async def predict(
    request: Request,
    task: Annotated[
        list[str] | None,
        Query(description="with an array as the body: one name for all rows, or one per row", max_length=10_000),
    ] = None,
    probabilities: Annotated[bool, Query(description="with an array as the body: also return probabilities")] = False,
    candidate: _Candidates = None,
) -> Response:
    """Predict labels of rows: all of one task, one task per row, or of the task inferred for them as a group.

    The body is JSON, a `.npy` array, an image file, or raw numbers whose headers describe them: `X-Shape: 256,784`,
    `X-Dtype: float32` or `uint8`, and `X-Tasks-Bytes: N` where the first N bytes are a JSON list of task names, one for
    each row. An image is resized to what the model takes; with several tasks it is predicted with each of them.
    """
    found = await answer_predict(service_of(request), request.scope, request.receive)
    return Response(found, media_type="application/json")


@router.post("/infer-task", response_model=Ranking, openapi_extra=body_of({}, **{body.JSON: InferRequest, **_ARRAYS}))
async def infer_task(
    request: Request,
    top: Annotated[int, Query(ge=1, le=1000, description="with an array: how many tasks to return")] = 10,
    candidate: _Candidates = None,
) -> Response:
    """Rank the tasks by how well they fit these rows as a group, and report whether none of them does."""
    found = await answer_infer(service_of(request), request.scope, request.receive)
    return Response(found, media_type="application/json")


async def answer_predict(service: Service, scope: Scope, receive: Receive) -> bytes:
    """The response to a request to predict, as JSON."""
    asked = await read_question(service, scope, receive, PredictRequest)
    ranking, names = asked.ranking, asked.task
    if names is None:
        ranking = await service.inference.rank(asked.x, asked.candidates)
        names = ranking[0].task
    outputs = await service.batcher.predict(asked.x, names)
    return _to_json(_predictions(outputs, names, ranking, asked.probabilities))


async def answer_infer(service: Service, scope: Scope, receive: Receive) -> bytes:
    """The response to a request to infer a task, as JSON."""
    asked: Asked = await read_question(service, scope, receive, InferRequest)
    ranking = asked.ranking or await service.inference.rank(asked.x, asked.candidates)
    found = {
        "ranking": [{"task": one.task, "score": one.score, "fit": one.fit} for one in ranking[: asked.top]],
        "none_of_these": none_fits(ranking),
        "tasks": await service.bank_calls.call(len, service.learner.bank),
    }
    return _to_json(found)


def _to_json(found: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a label that is a whole number beyond 64 bits, or text that is no Unicode
        return json.dumps(found, default=np.ndarray.tolist).encode()


def _predictions(
    outputs: Outputs, names: str | list[str], ranking: list[TaskScore] | None, probabilities: bool
) -> dict[str, Any]:
    one = names if isinstance(names, str) else None
    found: dict[str, Any] = {
        "labels": _labels(outputs),
        "task": one,
        "tasks": outputs.tasks if one is None else None,
        "inferred": ranking is not None,
        "none_of_these": None if ranking is None else none_fits(ranking),
        "probabilities": None,
        "classes": None,
    }
    if probabilities:
        found["probabilities"] = _probabilities(outputs)
        if one is not None:
            found["classes"] = [json_label(label) for label in outputs.classes[one]]
    return found


def _labels(outputs: Outputs) -> list[Any]:
    if all(labels.info.kind == "classification" for labels in outputs.classes.values()):
        return [json_label(outputs.classes[name][i]) for name, i in zip(outputs.tasks, outputs.best, strict=True)]
    return [
        json_label(answer(row, outputs.classes[name])) for name, row in zip(outputs.tasks, outputs.logits, strict=True)
    ]


def _probabilities(outputs: Outputs) -> Any:
    """Of each row over its classes, or its labels; a regression has none, which is an error."""
    logits = outputs.logits.double()
    if all(labels.info.kind == "classification" for labels in outputs.classes.values()):
        rows = logits.softmax(dim=1).numpy().round(6)
        counts = [len(outputs.classes[name]) for name in outputs.tasks]
        if min(counts) == rows.shape[1]:  # written without an object for every number
            return rows
        return [row[:count] for row, count in zip(rows.tolist(), counts, strict=True)]
    return [
        row_probabilities(row[: len(outputs.classes[name])], name, outputs.classes[name].info).numpy().round(6).tolist()
        for name, row in zip(outputs.tasks, logits, strict=True)
    ]
