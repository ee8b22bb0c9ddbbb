"""Endpoint that learns rows of a stream as they come."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from crwn.serve import body
from crwn.serve.access import Writer
from crwn.serve.body import Array
from crwn.serve.errors import documented
from crwn.serve.labelled import read_labelled
from crwn.serve.names import TaskName
from crwn.serve.schemas import ObservedRows, ObserveRequest, body_of, json_label
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1/tasks", tags=["learn"])

_EXAMPLES = {
    "first row": {"value": {"rows": [[0.0, 1.0]], "labels": ["cat"], "classes": ["cat", "dog"]}},
    "next row": {"value": {"rows": [[1.0, 0.0]], "labels": ["dog"]}},
}
MOST_ROWS = 1000


@router.post(
    "/{name}/observe",
    openapi_extra=body_of(_EXAMPLES, **{body.JSON: ObserveRequest}),
    responses=documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 429),
)
async def observe(request: Request, name: TaskName, _: Writer) -> ObservedRows:
    """Predict rows of a stream, then learn them in closed form; the answer has the predictions made before."""
    given, x = await read_labelled(request, ObserveRequest, MOST_ROWS)
    return await run_in_threadpool(_observe, service_of(request), name, given, x)


def _observe(service: Service, name: str, given: ObserveRequest, x: Array) -> ObservedRows:
    found = service.learner.observe(
        name,
        x,
        body.labels(given.labels),
        classes=None if given.classes is None else body.labels(given.classes),
    )
    return ObservedRows(
        predictions=[json_label(label) for label in found.predicted],
        rows=found.rows,
        accuracy=found.accuracy,
        drifts=list(found.drifts),
        refreshed=found.refreshed,
    )
