"""Addresses that teach: start a job, follow its progress, cancel it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from crwn import lessons
from crwn.serve import body
from crwn.serve.access import Writer
from crwn.serve.errors import ServeError, documented
from crwn.serve.jobs import Job, Learn
from crwn.serve.names import TaskName
from crwn.serve.schemas import BINARY, JobFacts, LearnRequest, body_of
from crwn.serve.service import Service, job_facts, service_of, task_facts

router = APIRouter(prefix="/v1", tags=["learn"], responses=documented(400, 403, 404, 422))

_EXAMPLES = {"two rows": {"value": {"x": [[0.0, 1.0], [1.0, 0.0]], "y": ["cat", "dog"], "batches": 300}}}
_CSV = {"type": "string", "description": "first line names the columns, one of them `label`"}


@router.post(
    "/tasks/{name}/learn",
    status_code=202,
    openapi_extra=body_of(_EXAMPLES, **{body.JSON: LearnRequest, body.NPZ: BINARY, body.CSV: _CSV}),
    responses=documented(401, 408, 409, 413, 415, 429),
)
async def learn(
    request: Request,
    name: TaskName,
    _: Writer,
    batches: Annotated[int | None, Query(ge=1)] = None,
    epochs: Annotated[int | None, Query(ge=1)] = None,
    validation: Annotated[float | None, Query(gt=0, lt=1, description="share held out to stop early by")] = None,
    replace: Annotated[bool, Query(description="learn anew a task that is there")] = False,
    resume: Annotated[bool, Query(description="go on from what the task learned")] = False,
) -> JobFacts:
    """Start learning a task from JSON arrays, an `.npz` with `x` and `y`, or a CSV with a column `label`.

    The data are checked in full before the job is made. With a JSON body, options may stand in it.
    """
    service = service_of(request)
    limits = service.limits
    kind = body.content_type(request, body.JSON, body.NPZ, body.CSV)
    service.jobs.check_room(name)
    data = await body.read_body(request, limits.upload_bytes, limits.body_seconds * 10)
    options = {"batches": batches, "epochs": epochs, "validation": validation, "replace": replace, "resume": resume}
    return await run_in_threadpool(_start, service, name, kind, data, options)


def _start(service: Service, name: str, kind: str, data: bytes, options: dict[str, Any]) -> JobFacts:
    limits, learner = service.limits, service.learner
    x: Any
    y: Any
    if kind == body.JSON:
        given = body.parse_json(LearnRequest, data)
        x, y = body.numbers(given.x, "x"), body.labels(given.y)
        options |= given.model_dump(include=set(options), exclude_unset=True)
    else:
        arrays = body.parse_npz(data, limits.unpacked_bytes) if kind == body.NPZ else body.parse_csv(data)
        x, y = arrays["x"], _labels(arrays["y"])
    if x.ndim == 0 or len(x) > limits.learn_rows:
        raise ServeError(413, "too_many_rows", f"{len(x) if x.ndim else 0:,} rows: send at most {limits.learn_rows:,}")
    replace, resume = options.pop("replace"), options.pop("resume")
    there = name in learner.bank
    if there and not (replace or resume):
        raise ServeError(409, "task_exists", f'task "{name}" is there already: replace it, or resume it')
    if resume and not there:
        raise ServeError(404, "unknown_task", f'task "{name}" is not there to be resumed')
    if resume and replace:
        raise ServeError(422, "invalid_option", "both resume and replace are asked for: resume goes on, replace anew")
    plan = lessons.plan(learner.model, None, batches=options["batches"], epochs=options["epochs"])
    learner.check_lesson(name, x, y, validation=options["validation"], resume=resume)
    if plan.steps(len(x)) > limits.batches:
        raise ServeError(422, "invalid_option", f"{plan.steps(len(x)):,} batches: ask for at most {limits.batches:,}")
    return job_facts(
        service.jobs.add(name, _lesson(service, name, x, y, {**options, "replace": replace, "resume": resume}))
    )


def _labels(y: body.Array) -> list[Hashable]:
    from crwn.data.arrays import check_labels

    return list(check_labels(y, len(y) if y.ndim else 0, "y").tolist())


def _lesson(service: Service, name: str, x: Any, y: Any, options: dict[str, Any]) -> Learn:
    def do(job: Job) -> Mapping[str, Any]:
        service.learner.learn(name, x, y, progress=False, callbacks=[job.callback], **options)
        found = service.learner.bank.entries(name, limit=1)
        return task_facts(found[0]).model_dump() if found and found[0].name == name else {}

    return do


@router.get("/jobs/{job}")
def get_job(request: Request, job: str) -> JobFacts:
    """How far a job is."""
    return job_facts(service_of(request).jobs.get(job))


@router.delete("/jobs/{job}", status_code=204, responses=documented(401))
def cancel_job(request: Request, job: str, _: Writer) -> Response:
    """Cancel a job: nothing of it is stored. One that has ended stays as it is."""
    found = service_of(request).jobs.get(job)
    if not found.ended:
        found.cancel("cancelled on request: nothing was stored")
    return Response(status_code=204)


@router.get(
    "/jobs/{job}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "progress"},
        **documented(429),
    },
)
async def job_events(request: Request, job: str) -> StreamingResponse:
    """Progress as server-sent events: `progress`, and at the end `done`, `failed` or `cancelled`."""
    service = service_of(request)
    found = service.jobs.get(job)
    if service.streams >= service.limits.streams:
        raise ServeError(429, "too_many_streams", "too many event streams are open: ask for the job instead")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(service, found), media_type="text/event-stream", headers=headers)


async def _events(service: Service, job: Job) -> AsyncIterator[str]:
    service.streams += 1
    try:
        async for changed in job.watch():
            if not changed:
                yield ": still here\n\n"
                continue
            facts = job_facts(job).model_dump()
            if job.state == "done":
                facts["facts"] = dict(job.facts)
            kind = job.state if job.ended else "progress"
            yield f"event: {kind}\ndata: {json.dumps(facts)}\n\n"
    finally:
        service.streams -= 1
