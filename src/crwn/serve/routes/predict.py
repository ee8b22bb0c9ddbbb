"""Endpoints that predict labels and infer tasks."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, TypeVar

import torch
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from crwn.data.dataset import Rows
from crwn.data.inputs import rows_of
from crwn.errors import DataError
from crwn.learner.task_inference import TaskScore, none_fits
from crwn.serve import body
from crwn.serve.batcher import Outputs
from crwn.serve.errors import ServeError, documented
from crwn.serve.schemas import (
    BINARY,
    InferRequest,
    Predictions,
    PredictRequest,
    RankedTask,
    Ranking,
    RowsRequest,
    body_of,
    json_label,
)
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["predict"], responses=documented(400, 403, 404, 408, 413, 415, 422))

Given = TypeVar("Given", bound=RowsRequest)
_PREDICT_EXAMPLES = {
    "one task": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "task": "left"}},
    "a task per row": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2], [1.0, 0.0, 0.0, 0.1]], "task": ["left", "right"]}},
    "inferred": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "probabilities": True}},
}


@router.post(
    "/predict",
    response_model=Predictions,
    openapi_extra=body_of(_PREDICT_EXAMPLES, **{body.JSON: PredictRequest, body.NPY: BINARY}),
)
async def predict(
    request: Request,
    task: Annotated[
        list[str] | None,
        Query(description="with an npy body: one name for all rows, or one per row", max_length=10_000),
    ] = None,
    probabilities: Annotated[bool, Query(description="with an npy body: also return probabilities")] = False,
) -> Response:
    """Predict labels of rows: all of one task, one task per row, or of the task inferred for them as a group."""
    service = service_of(request)
    rows, given = await _read_rows(request, service, PredictRequest)
    names: str | list[str] | None = task[0] if task is not None and len(task) == 1 else task
    if given is not None:
        names, probabilities = given.task, given.probabilities
    if isinstance(names, list) and len(names) != len(rows):
        raise DataError(f"{len(rows)} rows but {len(names)} task names: give one name, or one for each row")
    ranking = None
    if names is None:
        ranking = await _rank(service, rows)
        names = ranking[0].task
    outputs = await service.batcher.predict(rows, names)
    found = _predictions(outputs, names, ranking, probabilities)
    # Not through the response model: validating thousands of probabilities would take longer than predicting them.
    return Response(json.dumps(found), media_type="application/json")


@router.post("/infer-task", openapi_extra=body_of({}, **{body.JSON: InferRequest, body.NPY: BINARY}))
async def infer_task(
    request: Request,
    top: Annotated[int, Query(ge=1, le=1000, description="with an npy body: how many tasks to return")] = 10,
) -> Ranking:
    """Rank the tasks by how well they fit these rows as a group, and report whether none of them does."""
    service = service_of(request)
    rows, given = await _read_rows(request, service, InferRequest)
    ranking = await _rank(service, rows)
    return Ranking(
        ranking=[
            RankedTask(task=one.task, score=one.score, fit=one.fit)
            for one in ranking[: top if given is None else given.top]
        ],
        none_of_these=none_fits(ranking),
        tasks=await run_in_threadpool(len, service.learner.bank),
    )


async def _read_rows(request: Request, service: Service, model: type[Given]) -> tuple[Rows, Given | None]:
    """The checked rows of a body, and the whole request where the body is JSON."""
    limits, given = service.limits, None
    kind = body.content_type(request, body.JSON, body.NPY)
    data = await body.read_body(request, limits.body_bytes, limits.body_seconds)
    if kind == body.JSON:
        given = body.parse_json(model, data)
        array = body.numbers(given.rows)
    else:
        array = body.parse_npy(data, limits.body_bytes)
    if array.ndim == 0 or len(array) == 0:
        raise DataError("there are no rows: send at least one")
    if len(array) > limits.rows:
        raise ServeError(413, "too_many_rows", f"{len(array):,} rows at once: send at most {limits.rows:,}")
    rows = rows_of(array, shape=service.learner.input_shape)
    return dataclasses.replace(rows, x=rows.x.to(torch.float32)), given


async def _rank(service: Service, rows: Rows) -> list[TaskScore]:
    if not await run_in_threadpool(len, service.learner.bank):
        raise ServeError(404, "no_tasks", "there are no tasks yet: learn one first")
    first = dataclasses.replace(rows, x=rows.x[: service.limits.inference_rows])
    return await run_in_threadpool(service.learner.infer_task, first)


def _predictions(
    outputs: Outputs, names: str | list[str], ranking: list[TaskScore] | None, probabilities: bool
) -> dict[str, Any]:
    one = names if isinstance(names, str) else None
    best = (
        [int(row.argmax()) for row in outputs.logits] if one is None else torch.stack(outputs.logits).argmax(1).tolist()
    )
    found: dict[str, Any] = {
        "labels": [json_label(outputs.classes[name][i]) for name, i in zip(outputs.tasks, best, strict=True)],
        "task": one,
        "tasks": outputs.tasks if one is None else None,
        "inferred": ranking is not None,
        "none_of_these": None if ranking is None else none_fits(ranking),
        "probabilities": None,
        "classes": None,
    }
    if probabilities:
        found["probabilities"] = [[round(p, 6) for p in row.softmax(dim=0).tolist()] for row in outputs.logits]
        if one is not None:
            found["classes"] = [json_label(label) for label in outputs.classes[one]]
    return found
