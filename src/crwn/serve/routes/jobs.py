"""Endpoints of learning jobs: state, progress events, cancellation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from crwn.serve.access import Writer
from crwn.serve.errors import ServeError, documented
from crwn.serve.jobs import Job
from crwn.serve.schemas import JobFacts
from crwn.serve.service import Service, service_of

router = APIRouter(prefix="/v1/jobs", tags=["learn"], responses=documented(400, 403, 404, 422))

_EVENTS = {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "progress"}


@router.get("/{job}")
def get_job(request: Request, job: str) -> JobFacts:
    """State and progress of a job."""
    return JobFacts.of(service_of(request).jobs.get(job))


@router.delete("/{job}", status_code=204, responses=documented(401))
def cancel_job(request: Request, job: str, _: Writer) -> Response:
    """Cancel a job: nothing of it is stored. A job that has ended stays as it is."""
    found = service_of(request).jobs.get(job)
    if not found.ended:
        found.cancel("cancelled on request: nothing was stored")
    return Response(status_code=204)


@router.get("/{job}/events", response_class=StreamingResponse, responses={200: _EVENTS, **documented(429)})
async def job_events(request: Request, job: str) -> StreamingResponse:
    """Progress as server-sent events: `progress`, and at the end `done`, `failed` or `cancelled`."""
    service = service_of(request)
    found = service.jobs.get(job)
    check_streams(service)
    service.streams += 1  # at once: a burst of requests must not pass the limit together
    return _Stream(service, _events(found))


def check_streams(service: Service) -> None:
    """Raises ServeError where no more event streams may be opened."""
    if service.streams_full:
        raise ServeError(429, "too_many_streams", "too many event streams are open: poll the job instead")


class _Stream(StreamingResponse):
    """Events of a job; counted until it ends, also when the client leaves before the first event."""

    def __init__(self, service: Service, events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.service.streams -= 1


async def _events(job: Job) -> AsyncIterator[str]:
    async for changed in job.watch():
        if not changed:
            yield ": keep-alive\n\n"
            continue
        facts = JobFacts.of(job).model_dump()
        if job.state == "done":
            facts["facts"] = dict(job.facts)
        kind = job.state if job.ended else "progress"
        yield f"event: {kind}\ndata: {json.dumps(facts)}\n\n"
