"""Addresses that predict and infer tasks."""

from __future__ import annotations

import json
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from crwn.errors import DataError
from crwn.inference import TaskScore, none_fits
from crwn.serve import body
from crwn.serve.batching import Answer, ready_rows
from crwn.serve.errors import ServeError, documented
from crwn.serve.schemas import BINARY, Answers, InferRequest, PredictRequest, RankedTask, Ranking, body_of
from crwn.serve.service import Service, json_label, service_of

router = APIRouter(prefix="/v1", tags=["predict"], responses=documented(400, 403, 404, 408, 413, 415, 422))

_PREDICT_EXAMPLES = {
    "one task": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "task": "left"}},
    "a task per row": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2], [1.0, 0.0, 0.0, 0.1]], "task": ["left", "right"]}},
    "inferred": {"value": {"rows": [[0.0, 0.5, 1.0, 0.2]], "probabilities": True}},
}


@router.post(
    "/predict",
    response_model=Answers,
    openapi_extra=body_of(_PREDICT_EXAMPLES, **{body.JSON: PredictRequest, body.NPY: BINARY}),
)
async def predict(
    request: Request,
    task: Annotated[
        list[str] | None,
        Query(description="with an npy body: one name for all rows, or one per row", max_length=10_000),
    ] = None,
    probabilities: Annotated[bool, Query(description="with an npy body: also give probabilities")] = False,
) -> Response:
    """Labels of rows: all of one task, one task per row, or of the task inferred for them as a group."""
    service = service_of(request)
    limits = service.limits
    kind = body.content_type(request, body.JSON, body.NPY)
    data = await body.read_body(request, limits.body_bytes, limits.body_seconds)
    names: str | list[str] | None
    if kind == body.JSON:
        given = body.parse_json(PredictRequest, data)
        rows, names, probabilities = body.numbers(given.rows), given.task, given.probabilities
    else:
        rows = body.parse_npy(data, limits.body_bytes)
        names = task[0] if task is not None and len(task) == 1 else task
    x = _checked(service, rows, limits.rows)
    if isinstance(names, list) and len(names) != len(x):
        raise DataError(f"{len(x)} rows but {len(names)} task names: give one name, or one for each row")
    ranking = None
    if names is None:
        ranking = await _rank(service, x)
        names = ranking[0].task
    answer = await service.batcher.answer(x, names)
    return _respond(answer, names, ranking, probabilities)


@router.post("/infer-task", openapi_extra=body_of({}, **{body.JSON: InferRequest, body.NPY: BINARY}))
async def infer_task(
    request: Request,
    top: Annotated[int, Query(ge=1, le=1000, description="with an npy body: how many of the best tasks")] = 10,
) -> Ranking:
    """Tasks ranked by how well they fit these rows as a group, and whether none of them does."""
    service = service_of(request)
    limits = service.limits
    kind = body.content_type(request, body.JSON, body.NPY)
    data = await body.read_body(request, limits.body_bytes, limits.body_seconds)
    if kind == body.JSON:
        given = body.parse_json(InferRequest, data)
        rows, top = body.numbers(given.rows), given.top
    else:
        rows = body.parse_npy(data, limits.body_bytes)
    ranking = await _rank(service, _checked(service, rows, limits.rows))
    return Ranking(
        ranking=[RankedTask(task=one.task, score=one.score, fit=one.fit) for one in ranking[:top]],
        none_of_these=none_fits(ranking),
        tasks=await run_in_threadpool(len, service.learner.bank),
    )


def _checked(service: Service, rows: Any, most: int) -> Tensor:
    if rows.ndim == 0 or len(rows) == 0:
        raise DataError("there are no rows: send at least one")
    if len(rows) > most:
        raise ServeError(413, "too_many_rows", f"{len(rows):,} rows at once: send at most {most:,}")
    return ready_rows(rows, service.learner)


async def _rank(service: Service, x: Tensor) -> list[TaskScore]:
    if not await run_in_threadpool(len, service.learner.bank):
        raise ServeError(404, "no_tasks", "there are no tasks yet: teach one first")
    return await run_in_threadpool(service.learner.infer_task, x[: service.limits.inference_rows])


def _respond(answer: Answer, names: str | list[str], ranking: list[TaskScore] | None, probabilities: bool) -> Response:
    one = names if isinstance(names, str) else None
    best = (
        [int(row.argmax()) for row in answer.logits] if one is None else torch.stack(answer.logits).argmax(1).tolist()
    )
    out: dict[str, Any] = {
        "labels": [json_label(answer.classes[name][i]) for name, i in zip(answer.tasks, best, strict=True)],
        "task": one,
        "tasks": answer.tasks if one is None else None,
        "inferred": ranking is not None,
        "none_of_these": None if ranking is None else none_fits(ranking),
        "probabilities": None,
        "classes": None,
    }
    if probabilities:
        out["probabilities"] = [[round(p, 6) for p in row.softmax(dim=0).tolist()] for row in answer.logits]
        if one is not None:
            out["classes"] = [json_label(label) for label in answer.classes[one]]
    return Response(json.dumps(out), media_type="application/json")
