"""Endpoint that starts learning a task."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from crwn.data.tables import Table
from crwn.serve import body
from crwn.serve.access import Writer
from crwn.serve.errors import documented
from crwn.serve.learning import make_learn
from crwn.serve.named_rows import are_named, named_table
from crwn.serve.names import TaskName
from crwn.serve.schemas import BINARY, CSVOptions, JobFacts, LearnOptions, LearnRequest, body_of
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1/tasks", tags=["learn"])

_EXAMPLES = {"two rows": {"value": {"x": [[0.0, 1.0], [1.0, 0.0]], "y": ["cat", "dog"], "batches": 300}}}
_CSV = {
    "type": "string",
    "description": "the first line names the columns, one of them `label`; text, dates and gaps are encoded",
}


@router.post(
    "/{name}/learn",
    status_code=202,
    openapi_extra=body_of(_EXAMPLES, **{body.JSON: LearnRequest, body.NPZ: BINARY, body.CSV: _CSV}),
    responses=documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 429),
)
async def learn(request: Request, name: TaskName, _: Writer, options: Annotated[CSVOptions, Query()]) -> JobFacts:
    """Start a job that learns a task from JSON arrays, an `.npz` with `x` and `y`, or a CSV with a column `label`.

    The data are checked in full before the job is queued. In a JSON body, options may be given beside the data.
    """
    service = service_of(request)
    limits = service.limits
    kind = body.content_type(request.headers, body.JSON, body.NPZ, body.CSV)
    with service.jobs.reserved(name):  # reading and parsing cost as much memory as a job
        seconds = limits.body_seconds * 10
        data = await body.read_body(request.receive, request.headers, limits.upload_bytes, seconds, service.bodies)
        return await run_in_threadpool(_queue, service, name, kind, data, options)


def _queue(service: Service, name: str, kind: str, data: bytes, options: CSVOptions) -> JobFacts:
    x: body.Array | Table
    y: list[Hashable] | None
    if kind == body.JSON:
        given, x = _from_json(service, data)
        y = body.labels(given.y)
        options = options.model_copy(
            update=given.model_dump(include=set(LearnOptions.model_fields), exclude_unset=True)
        )
    elif kind == body.NPZ:
        x, y = body.parse_npz(data, service.limits.unpacked_bytes)
    else:
        limits = service.limits
        most = (limits.table_bytes, limits.table_cells)
        x, y = body.parse_csv(data, options.label, options.ignore, options.text, *most), None
    return JobFacts.of(service.jobs.add(name, make_learn(service, name, x, y, options)))


def _from_json(service: Service, data: bytes) -> tuple[LearnRequest, body.Array | Table]:
    if len(data) > service.limits.parsed_here_bytes:
        rest, array = service.upload_parser.parse_here(data, "x", service.limits.learn_rows)
        if array is not None:
            return body.checked(LearnRequest, rest | {"x": [None]}), array
        given = body.checked(LearnRequest, rest)
    else:
        given = body.parse_json(LearnRequest, data)
    if are_named(given.x):
        return given, named_table(given.x, service.limits.learn_rows)
    return given, body.numbers(given.x, "x")
