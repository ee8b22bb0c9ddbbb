"""Learning as jobs: they wait, learn one after another, tell how far they are, and can be cancelled at any step."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

from crwn.errors import CRWNError
from crwn.learner import Learner
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from crwn.training import Step

log = logging.getLogger("crwn.serve")

State = Literal["waiting", "learning", "done", "failed", "cancelled"]
Learn = Callable[["Job"], Mapping[str, Any]]
TELL_EVERY = 0.1  # seconds between two progress events


class _Cancelled(Exception):
    """Raised inside the training loop to leave it; nothing has been stored then."""


class Job:
    """One task to learn."""

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
        self._told = 0.0
        self._stop: str | None = None
        self._changed = 0
        self._lock = threading.Lock()
        self._watchers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    def cancel(self, why: str) -> None:
        """Leave the loop at the next step; a job that waits ends at once."""
        with self._lock:
            self._stop = why
            waiting = self.state == "waiting"
        if waiting:
            self._end("cancelled", why)

    def seconds_left(self) -> float:
        """How long it will take at its pace so far; unknown is for ever."""
        if self.state != "learning" or self.step == 0:
            return float("inf")
        return (time.monotonic() - self._began) / self.step * (self.steps - self.step)

    def run(self) -> None:
        with self._lock:
            if self.state != "waiting" or self._learn is None:
                return
            self.state = "learning"
            self._began = time.monotonic()
            learn, self._learn = self._learn, None
        self._tell()
        try:
            self.facts = learn(self)
        except _Cancelled:
            self._end("cancelled" if self._stop else "failed", self._stop or self._too_long())
        except CRWNError as error:
            self._end("failed", str(error))
        except Exception:
            log.exception("learning a task failed")
            self._end("failed", "the service failed: its log says why")
        else:
            self._end("done", None)

    def callback(self, step: Step) -> None:
        """Told by the training loop after every step."""
        self.step, self.steps = step.step, step.steps
        moment = time.monotonic()
        if self._stop is not None or moment - self._began > self._seconds:
            raise _Cancelled
        if moment - self._told >= TELL_EVERY or step.step == step.steps:
            self._told = moment
            self.loss = float(step.losses[0])
            self._tell()

    def _too_long(self) -> str:
        return f"learning took more than {self._seconds:g} s: ask for fewer batches"

    def _end(self, state: State, message: str | None) -> None:
        with self._lock:
            self.state, self.message, self._learn = state, message, None
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            self._changed += 1
            watchers = list(self._watchers.items())
        for event, loop in watchers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # that loop has ended
                continue

    async def watch(self, idle: float = 15.0) -> AsyncIterator[bool]:
        """Yields True whenever something changed (at once the first time), False when nothing did for a while."""
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._lock:
            self._watchers[event] = loop
        seen = -1
        try:
            while True:
                changed, ended = self._changed, self.ended
                if changed != seen:
                    seen = changed
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


class Jobs:
    """A thread that learns one task after another, and what became of each."""

    def __init__(self, learner: Learner, limits: Limits, metrics: Metrics) -> None:
        self.learner = learner
        self.limits = limits
        self.metrics = metrics
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queue: deque[Job] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="crwn-learning", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def __len__(self) -> int:
        """How many are learning or waiting to."""
        return sum(not job.ended for job in list(self._jobs.values()))

    def check_room(self, task: str) -> None:
        """Refuse before the upload is read what would be refused after."""
        with self._wake:
            self._check_room(task)

    def check_free(self, task: str) -> None:
        """Refuse to store what a job would overwrite when it is done."""
        if any(job.task == task and not job.ended for job in list(self._jobs.values())):
            raise ServeError(409, "being_learned", f'task "{task}" is being learned: wait, or cancel that first')

    def _check_room(self, task: str) -> None:
        if self._stopping:
            raise ServeError(503, "stopping", "the service is stopping: ask another one")
        self.check_free(task)
        under_way = [job for job in self._jobs.values() if not job.ended]
        if len(under_way) >= self.limits.jobs:
            raise ServeError(
                429,
                "too_many_jobs",
                f"{len(under_way)} tasks are being learned or wait to be: ask again later",
                {"Retry-After": "5"},
            )

    def add(self, task: str, learn: Learn) -> Job:
        job = Job(task, learn, self.limits.learn_seconds)
        with self._wake:
            self._check_room(task)
            self._jobs[job.id] = job
            self._queue.append(job)
            ended = [key for key, other in self._jobs.items() if other.ended]
            for key in ended[: max(0, len(ended) - self.limits.kept_jobs)]:
                del self._jobs[key]
            self._wake.notify()
        return job

    def get(self, key: str) -> Job:
        job = self._jobs.get(key)
        if job is None:
            raise ServeError(404, "unknown_job", "there is no such job: it may have ended long ago")
        return job

    def begin_stop(self) -> None:
        """Drop what waits, let what is nearly done finish, leave the rest at its next step."""
        with self._wake:
            self._stopping = True
            under_way = [job for job in self._jobs.values() if not job.ended]
            self._wake.notify()
        for job in under_way:
            if job.seconds_left() > self.limits.grace_seconds:
                job.cancel("the service stopped: nothing was stored")

    def stop(self) -> None:
        self.begin_stop()
        if self._thread.is_alive():
            self._thread.join(self.limits.grace_seconds)
        for job in list(self._jobs.values()):
            if not job.ended:
                job.cancel("the service stopped: nothing was stored")
        if self._thread.is_alive():
            self._thread.join(self.limits.grace_seconds)

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if not self._queue:
                    return
                job = self._queue.popleft()
            job.run()
            self.metrics.jobs.labels(job.state).inc()
