"""Everything one running service holds together: the learner, the model's thread, learning jobs, limits, counters."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request

from crwn.bank import Entry
from crwn.context import encode_label
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.atlas import AtlasMaker
from crwn.serve.batching import Batcher
from crwn.serve.jobs import Job, Jobs
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from crwn.serve.names import encoded
from crwn.serve.schemas import JobFacts, TaskFacts


class Service:
    """A learner being served."""

    def __init__(self, learner: Learner, access: Access, limits: Limits) -> None:
        self.learner = learner
        self.access = access
        self.limits = limits
        self.metrics = Metrics()
        self.batcher = Batcher(learner, limits, self.metrics)
        self.jobs = Jobs(learner, limits, self.metrics)
        self.atlas = AtlasMaker(learner)
        self.streams = 0
        self.began = time.monotonic()

    def start(self) -> None:
        self.batcher.start()
        self.jobs.start()

    def begin_stop(self) -> None:
        """The first sign of the end: learning that will not finish soon is dropped, so that event streams end."""
        self.jobs.begin_stop()

    def stop(self) -> None:
        self.jobs.stop()
        self.batcher.stop()

    def measure(self) -> bytes:
        """The counters as Prometheus reads them."""
        resident = self.learner.resident
        self.metrics.tasks.set(len(self.learner.bank))
        self.metrics.resident.set(len(resident))
        self.metrics.hits.set(resident.hits)
        self.metrics.misses.set(resident.misses)
        self.metrics.evictions.set(resident.evictions)
        self.metrics.learning.set(len(self.jobs))
        return self.metrics.text()


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def task_facts(entry: Entry) -> TaskFacts:
    accuracy = entry.info.get("accuracy")
    return TaskFacts(
        name=entry.name,
        classes=[encode_label(label) for label in entry.classes],
        created=entry.created,
        version=entry.version,
        numbers=entry.numbers,
        bytes=entry.bytes,
        accuracy=float(accuracy) if isinstance(accuracy, int | float) and not isinstance(accuracy, bool) else None,
        info=entry.info,
    )


def job_facts(job: Job) -> JobFacts:
    return JobFacts(
        id=job.id,
        task=job.task,
        state=job.state,
        step=job.step,
        steps=job.steps,
        loss=job.loss if job.loss is not None and abs(job.loss) < float("inf") else None,
        message=job.message,
        events=f"/v1/jobs/{job.id}/events",
    )


def task_address(name: str) -> str:
    return f"/v1/tasks/{encoded(name)}"


def json_label(label: Any) -> Any:
    """A label as JSON gives it: tuples are lists."""
    return [json_label(part) for part in label] if isinstance(label, tuple) else label
