"""Learning jobs: queued, run one at a time, with progress events; a job can be cancelled at any training step."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from crwn._utils import counted
from crwn.errors import CRWNError
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from crwn.serve.worker import Worker
from crwn.training.loop import Step

log = logging.getLogger("crwn.serve")

State = Literal["waiting", "learning", "done", "failed", "cancelled"]
Learn = Callable[["Job"], Mapping[str, Any]]
PROGRESS_SECONDS = 0.1  # between two progress events
STOPPED = "the service stopped: nothing was stored"


class _Cancelled(Exception):
    """Raised inside the training loop to leave it before anything is stored."""


class Job:
    """Learns one task: calls `learn` with itself, and keeps the progress that `callback` receives."""

    def __init__(self, task: str, learn: Learn, seconds: float) -> None:
        self.id = secrets.token_urlsafe(12)
        self.task = task
        self.state: State = "waiting"
        self.step = self.steps = 0
        self.loss: float | None = None
        self.message: str | None = None
        self.facts: Mapping[str, Any] = {}
        self._learn: Learn | None = learn
        self._seconds = seconds
        self._began = 0.0
        self._notified = 0.0
        self._cancelled: str | None = None
        self._changes = 0
        self._lock = threading.Lock()
        self._watchers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    def cancel(self, reason: str) -> None:
        """Ends a waiting job at once and a running one at its next step; an ended job stays as it is."""
        with self._lock:
            self._cancelled = reason
            waiting = self.state == "waiting"
        if waiting:
            self._end("cancelled", reason)

    def seconds_left(self) -> float:
        """Estimates the remaining time from the pace so far; infinite before the first step."""
        if self.state != "learning" or self.step == 0:
            return float("inf")
        return (time.monotonic() - self._began) / self.step * (self.steps - self.step)

    def run(self) -> None:
        """Learns the task and sets the final state; a job that was cancelled before does nothing."""
        with self._lock:
            if self.state != "waiting" or self._learn is None:
                return
            self.state = "learning"
            self._began = time.monotonic()
            learn, self._learn = self._learn, None
        self._notify()
        try:
            self.facts = learn(self)
        except _Cancelled:
            too_long = f"learning took more than {self._seconds:g} s: use fewer batches"
            self._end("cancelled" if self._cancelled else "failed", self._cancelled or too_long)
        except CRWNError as error:
            self._end("failed", str(error))
        except Exception:
            log.exception("a learning job failed")
            self._end("failed", str(ServeError.internal()))
        else:
            self._end("done", None)

    def callback(self, step: Step) -> None:
        """Callback of the training loop: notes the progress, and raises when the job is to end."""
        self.step, self.steps = step.step, step.steps
        moment = time.monotonic()
        if self._cancelled is not None or moment - self._began > self._seconds:
            raise _Cancelled
        if moment - self._notified >= PROGRESS_SECONDS or step.step == step.steps:
            self._notified = moment
            self.loss = float(step.losses[0])
            self._notify()

    def _end(self, state: State, message: str | None) -> None:
        with self._lock:
            self.state, self.message, self._learn = state, message, None
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            self._changes += 1
            watchers = list(self._watchers.items())
        for event, loop in watchers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # that loop is closed
                continue

    async def watch(self, idle: float = 15.0) -> AsyncIterator[bool]:
        """Yields True at once and after every change until the job ends, False after `idle` seconds without one."""
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._lock:
            self._watchers[event] = loop
        seen = -1
        try:
            while True:
                changes, ended = self._changes, self.ended
                if changes != seen:
                    seen = changes
                    yield True
                if ended:
                    return
                try:
                    async with asyncio.timeout(idle):
                        await event.wait()
                    event.clear()
                except TimeoutError:
                    yield False
        finally:
            with self._lock:
                self._watchers.pop(event, None)


class Jobs(Worker[Job]):
    """A thread that runs one job after another, and the last jobs by their ids."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        super().__init__("crwn-learning")
        self.limits = limits
        self.metrics = metrics
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._reserved = 0  # uploads that are being read

    def __len__(self) -> int:
        """How many jobs are running or waiting."""
        return len(self._open())

    def __contains__(self, key: object) -> bool:
        return key in self._jobs

    def _open(self) -> list[Job]:
        with self.changed:
            return [job for job in self._jobs.values() if not job.ended]

    def check_not_learning(self, task: str) -> None:
        """Raises ServeError while a job for this task is running or waiting."""
        if any(job.task == task for job in self._open()):
            raise ServeError(409, "being_learned", f'task "{task}" is being learned: wait, or cancel that job first')

    @contextmanager
    def reserved(self, task: str) -> Iterator[None]:
        """Keeps a place for a job while its upload is read and parsed; raises ServeError where there is none."""
        with self.changed:
            if self.stopping:
                raise ServeError.stopping()
            self.check_not_learning(task)
            count = len(self) + self._reserved
            if count >= self.limits.jobs:
                message = f"{counted(count, 'task')} being learned or waiting: try again later"
                raise ServeError(429, "too_many_jobs", message, {"Retry-After": "5"})
            self._reserved += 1
        try:
            yield
        finally:
            with self.changed:
                self._reserved -= 1

    def add(self, task: str, learn: Learn) -> Job:
        """Queues a job, for which a place is reserved; jobs that ended long ago are dropped."""
        job = Job(task, learn, self.limits.learn_seconds)
        with self.changed:
            if self.stopping:
                raise ServeError.stopping()
            self.check_not_learning(task)
            self._jobs[job.id] = job
            self.queue.append(job)
            ended = [key for key, other in self._jobs.items() if other.ended]
            for key in ended[: max(0, len(ended) - self.limits.kept_jobs)]:
                del self._jobs[key]
            self.changed.notify()
        return job

    def get(self, key: str) -> Job:
        job = self._jobs.get(key)
        if job is None:
            raise ServeError(404, "unknown_job", "there is no such job: it may have ended long ago")
        return job

    def begin_stop(self) -> None:
        """Cancels all jobs but one that will end within the grace period."""
        self.end()
        for job in self._open():
            if job.seconds_left() > self.limits.grace_seconds:
                job.cancel(STOPPED)

    def stop(self) -> None:
        """Ends the thread, after the grace period at the latest."""
        self.begin_stop()
        self.join(self.limits.grace_seconds)
        for job in self._open():
            job.cancel(STOPPED)
        self.join(self.limits.grace_seconds)

    def handle(self, items: list[Job]) -> None:
        for job in items:
            job.run()
            self.metrics.jobs.labels(job.state).inc()
