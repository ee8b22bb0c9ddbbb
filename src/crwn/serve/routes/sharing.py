"""Endpoints that add classes to a task, and that answer for rows without a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from crwn.serve import body, photos
from crwn.serve.access import Writer
from crwn.serve.asked import read_question
from crwn.serve.errors import documented
from crwn.serve.labelled import read_labelled
from crwn.serve.names import TaskName
from crwn.serve.schemas import BINARY, InferRequest, body_of, json_label
from crwn.serve.service import Service, service_of
from crwn.serve.sharing_schemas import ExtendedTask, LabelledRows, RowAnswer, RowAnswers, SharedClasses

router = APIRouter(prefix="/v1", tags=["learn"])

T = TypeVar("T")
MOST_ROWS = 10_000
_EXAMPLES = {"a new class": {"value": {"rows": [[0.0, 1.0]], "labels": ["heron"]}}}
_ERRORS = documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 429)
_BODY = body_of(_EXAMPLES, **{body.JSON: LabelledRows})
_ROWS = {body.JSON: InferRequest, body.NPY: BINARY, body.RAW: BINARY, **dict.fromkeys(photos.TYPES, BINARY)}


@router.post("/tasks/{name}/extend", openapi_extra=_BODY, responses=_ERRORS)
async def extend(request: Request, name: TaskName, _: Writer) -> ExtendedTask:
    """Add rows, of the task's classes or of new ones, to a task that keeps its sums; no old rows are needed."""
    return await _with_rows(request, name, _extend)


@router.post("/tasks/{name}/share", openapi_extra=_BODY, responses=_ERRORS)
async def share(request: Request, name: TaskName, _: Writer) -> SharedClasses:
    """Add rows of a learned task to the head over the classes of all tasks, which `/v1/classify` answers with."""
    return await _with_rows(request, name, _share)


@router.post(
    "/classify",
    tags=["predict"],
    openapi_extra=body_of({}, **_ROWS),
    responses=documented(400, 403, 404, 408, 413, 415, 422),
)
async def classify(request: Request) -> RowAnswers:
    """The likeliest class of every row among the classes of all tasks that were shared; no task is given."""
    service = service_of(request)
    asked = await read_question(service, request.scope, request.receive, InferRequest)
    found = await run_in_threadpool(service.learner.classify, asked.x)
    answers = [RowAnswer(task=one.task, label=json_label(one.label), probability=one.probability) for one in found]
    return RowAnswers(answers=answers)


async def _with_rows(request: Request, name: str, work: Callable[[Service, str, Any, list[Any]], T]) -> T:
    given, x = await read_labelled(request, LabelledRows, MOST_ROWS)
    return await run_in_threadpool(work, service_of(request), name, x, body.labels(given.labels))


def _extend(service: Service, name: str, x: Any, labels: list[Any]) -> ExtendedTask:
    done = service.learner.extend(name, x, labels)
    return ExtendedTask(
        rows=done.rows,
        classes=[json_label(label) for label in done.context.classes],
        new_classes=[json_label(label) for label in done.new_classes],
        mean_change=done.mean_change,
        largest_change=done.largest_change,
    )


def _share(service: Service, name: str, x: Any, labels: list[Any]) -> SharedClasses:
    if service.learner.byte_scaling is not None and x.dtype.kind in "iu" and x.min() >= 0 and x.max() <= 255:
        x = x.astype(np.uint8)  # JSON has no bytes, and images are taken as such
    classes = service.learner.share(name, x, labels)
    return SharedClasses(tasks=service.learner.shared_tasks, classes=classes)
