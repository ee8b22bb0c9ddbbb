"""Addresses of tasks: list, look at, forget, and their contexts to download and upload."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from crwn.context import Context
from crwn.errors import TaskError
from crwn.serve import body
from crwn.serve.access import Writer
from crwn.serve.errors import ServeError, documented
from crwn.serve.names import TaskName
from crwn.serve.schemas import BINARY, Stored, TaskFacts, TaskPage, body_of
from crwn.serve.service import service_of, task_facts

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], responses=documented(400, 403, 422))

_SAYABLE = r"^[^\x00]*$"


@router.get("")
def list_tasks(
    request: Request,
    prefix: Annotated[str, Query(description="only names that start so", max_length=200)] = "",
    after: Annotated[str | None, Query(description="only names after this one", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> TaskPage:
    """Tasks in order of their names, a page at a time."""
    service = service_of(request)
    bank = service.learner.bank
    found = bank.entries(prefix, after=after, limit=min(limit, service.limits.page_size) + 1)
    more = len(found) > limit
    shown = found[:limit]
    return TaskPage(
        tasks=[task_facts(entry) for entry in shown], next=shown[-1].name if more else None, total=len(bank)
    )


@router.get("/{name}", responses=documented(404))
def get_task(request: Request, name: TaskName) -> TaskFacts:
    """What is known of one task."""
    bank = service_of(request).learner.bank
    # Names that start with this one come in order, so it is the first of them if it is there.
    found = bank.entries(name, limit=1)
    if not found or found[0].name != name:
        bank.get(name)  # raises, with names that are near
        raise TaskError(f'task "{name}" is not in the bank')
    return task_facts(found[0])


@router.delete("/{name}", status_code=204, responses=documented(401, 404))
def forget_task(request: Request, name: TaskName, _: Writer) -> Response:
    """Forget a task for good."""
    service_of(request).learner.forget(name)
    return Response(status_code=204)


@router.get(
    "/{name}/context",
    response_class=Response,
    responses={200: {"content": {body.CONTEXT: {"schema": BINARY}}, "description": "safetensors"}, **documented(404)},
)
def get_context(request: Request, name: TaskName) -> Response:
    """What a task learned, as a `.safetensors` file."""
    context = service_of(request).learner.context(name)
    # The name is not put into the header: it may hold anything, and the client knows it.
    headers = {"Content-Disposition": 'attachment; filename="context.safetensors"'}
    return Response(context.to_bytes(), media_type=body.CONTEXT, headers=headers)


@router.put(
    "/{name}/context",
    status_code=201,
    openapi_extra=body_of({}, **{body.CONTEXT: BINARY}),
    responses=documented(401, 408, 409, 413, 415),
)
async def put_context(
    request: Request,
    name: TaskName,
    _: Writer,
    replace: Annotated[bool, Query(description="in place of the one that is there")] = False,
) -> Stored:
    """Store a context that this model learned elsewhere; it is checked in full first, and takes the address's name."""
    service = service_of(request)
    body.content_type(request, body.CONTEXT)
    data = await body.read_body(request, service.limits.context_bytes, service.limits.body_seconds)
    return await run_in_threadpool(_store, request, name, data, replace)


def _store(request: Request, name: str, data: bytes, replace: bool) -> Stored:
    service = service_of(request)
    context = Context.from_bytes(data, source="the upload")
    if context.name != name:
        context = dataclasses.replace(context, name=name)
    service.jobs.check_free(name)
    try:
        service.learner.add(context, replace=replace)
    except TaskError as error:
        raise ServeError(409, "task_exists", str(error)) from None
    return Stored(name=name, version=service.learner.bank.versions(name)[-1])
