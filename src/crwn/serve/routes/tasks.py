"""Endpoints of tasks: list, read, forget, and download or upload their contexts."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from crwn.contexts import Context
from crwn.errors import TaskError
from crwn.serve import body
from crwn.serve.access import Writer
from crwn.serve.errors import documented
from crwn.serve.names import TaskName
from crwn.serve.schemas import BINARY, Stored, TaskFacts, TaskPage, body_of
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], responses=documented(400, 403, 422))

_FILE = {"content": {body.CONTEXT: {"schema": BINARY}}, "description": "a `.safetensors` file"}


@router.get("", response_model=TaskPage)
async def list_tasks(
    request: Request,
    prefix: Annotated[str, Query(description="only names that start with this", max_length=200)] = "",
    after: Annotated[str | None, Query(description="only names after this one", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Tasks in the order of their names, one page at a time."""
    service = service_of(request)
    found = await service.listings.call(_page, service, prefix, after, min(limit, service.limits.page_size))
    return Response(found, media_type=body.JSON)


def _page(service: Service, prefix: str, after: str | None, limit: int) -> str:
    """The page as JSON, which is written here and not in the thread of all requests."""
    bank = service.learner.bank
    found = bank.entries(prefix, after=after, limit=limit + 1)
    shown = found[:limit]
    page = TaskPage(
        tasks=[TaskFacts.of(entry) for entry in shown],
        next=shown[-1].name if len(found) > limit else None,
        total=len(bank),
    )
    return page.model_dump_json()


@router.get("/{name}", responses=documented(404))
async def get_task(request: Request, name: TaskName) -> TaskFacts:
    """One task."""
    service = service_of(request)
    return await service.bank_calls.call(_facts, service, name)


def _facts(service: Service, name: str) -> TaskFacts:
    entry = service.find(name)
    if entry is None:
        service.learner.bank.get(name)  # raises, with similar names
        raise TaskError(f'task "{name}" is not in the bank')
    return TaskFacts.of(entry)


@router.delete("/{name}", status_code=204, responses=documented(401, 404))
async def forget_task(request: Request, name: TaskName, _: Writer) -> Response:
    """Delete a task and its context."""
    service = service_of(request)
    await service.bank_calls.change(service.learner.forget, name)
    return Response(status_code=204)


@router.get("/{name}/context", response_class=Response, responses={200: _FILE, **documented(404)})
async def get_context(request: Request, name: TaskName) -> Response:
    """The context of a task as a `.safetensors` file."""
    service = service_of(request)
    context = await service.bank_calls.call(service.learner.context, name)
    # The file name is fixed: a task's name may contain characters that a header cannot.
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
    replace: Annotated[bool, Query(description="replace the context of an existing task")] = False,
) -> Stored:
    """Store a context of this model under this name; the whole file is checked first."""
    service = service_of(request)
    body.content_type(request.headers, body.CONTEXT)
    data = await body.read_body(
        request.receive, request.headers, service.limits.context_bytes, service.limits.body_seconds, service.bodies
    )
    return await service.bank_calls.change(_store, service, name, data, replace)


def _store(service: Service, name: str, data: bytes, replace: bool) -> Stored:
    context = Context.from_bytes(data, source="the upload")
    if context.name != name:
        context = dataclasses.replace(context, name=name)
    service.jobs.check_not_learning(name)
    service.learner.add(context, replace=replace)
    return Stored(name=name, version=service.learner.bank.versions(name)[-1])
