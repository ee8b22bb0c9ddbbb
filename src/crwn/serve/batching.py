"""Requests that arrive together are answered in one pass of the model, whatever their tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from crwn.errors import BankError, CRWNError, DataError, TaskError
from crwn.learner import Learner
from crwn.rows import Rows
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.metrics import Metrics
from crwn.stacking import widest_layer

log = logging.getLogger("crwn.serve")

ROWS_AT_ONCE = 512
# A request of one task with more rows than this fills a pass of its own, without a context per row.
ALONE = 64
# While requests follow one another this closely, those that wait are joined by the next, for no longer than this.
CLOSE_SECONDS = 0.003
LONGEST_GATHERING = 0.1


@dataclass
class Answer:
    """What the model says of one request's rows."""

    logits: list[Tensor]  # a row each, over its own task's classes
    tasks: list[str]
    classes: dict[str, tuple[Hashable, ...]]


@dataclass
class _Waiting:
    x: Tensor  # [rows, ...] float32, raw
    tasks: str | list[str]
    done: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop
    result: Answer | Exception | None = field(default=None)

    @property
    def names(self) -> list[str]:
        return [self.tasks] * len(self.x) if isinstance(self.tasks, str) else self.tasks


class Batcher:
    """One thread owns the model; it takes whatever is waiting, up to a number of rows.

    While one pass runs, the next requests gather: the busier the service, the larger the batches. After a pass that
    several requests shared, the next one also waits for requests that are just coming in, no longer than the last pass
    took; a client that is alone is never kept waiting.
    """

    def __init__(self, learner: Learner, limits: Limits, metrics: Metrics) -> None:
        self.learner = learner
        self.limits = limits
        self.metrics = metrics
        self.rows_at_once = min(ROWS_AT_ONCE, learner.resident.capacity)
        # Convolutions gain nothing from a context per row.
        self._mixes = widest_layer(learner.model) is not None
        self._queue: deque[_Waiting] = deque()
        self._waiting_rows = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._refreshed = time.monotonic()
        self._gathering = 0.0  # seconds the next pass may wait for more
        self._thread = threading.Thread(target=self._work, name="crwn-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, then end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    async def answer(self, x: Tensor, tasks: str | list[str]) -> Answer:
        """The model's answer to these rows, computed together with whatever else is waiting."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(x, tasks, loop.create_future(), loop)
        with self._wake:
            if self._stopping:
                raise ServeError(503, "stopping", "the service is stopping: ask another one")
            if self._waiting_rows + len(x) > self.limits.waiting_rows and self._queue:
                raise ServeError(503, "busy", "too many rows are waiting: ask again later", {"Retry-After": "1"})
            self._queue.append(waiting)
            self._waiting_rows += len(x)
            self._wake.notify()
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                return await waiting.done
        except TimeoutError:
            raise ServeError(503, "timeout", f"no answer within {self.limits.answer_seconds:g} s: ask again") from None

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if not self._queue:
                    return
                self._gather()
                taken = self._take()
            began = time.perf_counter()
            try:
                self._refresh()
                for group in self._groups(taken):
                    self._answer(group)
            except Exception as error:
                log.exception("predicting failed")
                for one in taken:
                    one.result = one.result or error
            took = time.perf_counter() - began
            self._gathering = min(took, LONGEST_GATHERING) if len(taken) > 1 else 0.0
            _deliver(taken)

    def _gather(self) -> None:
        """Wait while requests keep coming in, after a pass that several shared; the lock is held."""
        until = time.perf_counter() + self._gathering
        while (left := until - time.perf_counter()) > 0 and self._waiting_rows < self.rows_at_once:
            known = len(self._queue)
            self._wake.wait(min(CLOSE_SECONDS, left))
            if len(self._queue) == known or self._stopping:
                return

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        rows = 0
        while self._queue and (not taken or rows + len(self._queue[0].x) <= self.rows_at_once):
            one = self._queue.popleft()
            self._waiting_rows -= len(one.x)
            rows += len(one.x)
            if not one.done.cancelled():
                taken.append(one)
        return taken

    def _refresh(self) -> None:
        """See what other services changed in the bank, at most once in a while."""
        if time.monotonic() - self._refreshed < self.limits.refresh_seconds:
            return
        self._refreshed = time.monotonic()
        try:
            self.learner.refresh()
        except BankError as error:
            log.warning("serving what is in memory: %s", error)

    def _groups(self, taken: list[_Waiting]) -> list[list[_Waiting]]:
        """Which requests share a pass."""
        alone = [[one] for one in taken if isinstance(one.tasks, str) and len(one.x) > ALONE]
        together = [one for one in taken if not (isinstance(one.tasks, str) and len(one.x) > ALONE)]
        if self._mixes:
            return [*alone, together] if together else alone
        by_task: dict[Any, list[_Waiting]] = {}
        for one in together:
            by_task.setdefault(one.tasks if isinstance(one.tasks, str) else id(one), []).append(one)
        return [*alone, *by_task.values()]

    def _answer(self, group: list[_Waiting]) -> None:
        try:
            self._answer_together(group)
        except CRWNError as error:
            # A task that is not there must not spoil the others' answers.
            if len(group) == 1:
                group[0].result = error
                return
            for one in group:
                self._answer([one])

    def _answer_together(self, group: list[_Waiting]) -> None:
        names = [name for one in group for name in one.names]
        x = torch.cat([one.x for one in group]) if len(group) > 1 else group[0].x
        began, worked = time.perf_counter(), time.thread_time()
        logits, classes = self._logits(x, names)
        self.metrics.model_seconds.inc(time.perf_counter() - began)
        self.metrics.model_cpu.inc(time.thread_time() - worked)
        self.metrics.rows.inc(len(x))
        self.metrics.batch_rows.observe(len(x))
        self.metrics.batch_requests.observe(len(group))
        finite = torch.isfinite(logits).sum(dim=1).tolist()
        at = 0
        for one in group:
            end = at + len(one.x)
            counts = [len(classes[name]) for name in names[at:end]]
            if finite[at:end] != counts:
                one.result = DataError("the outputs for these rows are not finite: the numbers in them are too large")
            else:
                rows = [logits[i, :count] for i, count in zip(range(at, end), counts, strict=True)]
                one.result = Answer(rows, names[at:end], {name: classes[name] for name in set(names[at:end])})
            at = end

    def _logits(self, x: Tensor, names: list[str]) -> tuple[Tensor, dict[str, tuple[Hashable, ...]]]:
        different = list(dict.fromkeys(names))
        if len(different) == 1:
            logits, _, classes = self.learner.logits(x, different[0])
            return logits, classes
        if self._mixes:
            logits, _, classes = self.learner.logits(x, names)
            return logits, classes
        out = torch.full((len(x), self.learner.outputs), -torch.inf)
        found: dict[str, tuple[Hashable, ...]] = {}
        for name in different:
            rows = torch.tensor([i for i, other in enumerate(names) if other == name])
            part, _, classes = self.learner.logits(x[rows], name)
            out[rows, : part.shape[1]] = part
            found |= classes
        return out, found


def _deliver(taken: Sequence[_Waiting]) -> None:
    """Hand all results to their loop in one go."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
    for one in taken:
        by_loop.setdefault(one.loop, []).append(one)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, some)
        except RuntimeError:  # the loop has ended, and with it everybody who waited
            continue


def _settle(some: Sequence[_Waiting]) -> None:
    for one in some:
        if one.done.done():
            continue
        if isinstance(one.result, Answer):
            one.done.set_result(one.result)
        else:
            one.done.set_exception(one.result or TaskError("there is no answer"))


def ready_rows(x: Any, learner: Learner) -> Tensor:
    """Rows checked and shaped for the model, float32 and unscaled."""
    from crwn import inputs

    rows: Rows = inputs.rows_of(x, shape=learner.input_shape)
    return rows.x.to(torch.float32)
