"""Predicts the rows of concurrent requests in shared forward passes, whatever their tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.data.inputs import rows_of
from crwn.errors import CRWNError, DataError
from crwn.learner import Learner
from crwn.learner.predict import Classes
from crwn.serve.body import Array
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.loading import Loader
from crwn.serve.metrics import Metrics
from crwn.serve.worker import Worker
from crwn.training.stacking import widest_layer

log = logging.getLogger("crwn.serve")

ROWS_AT_ONCE = 512
# A request with more rows than this gets a pass of its own, after the small ones that wait: those of one task then need
# no context per row, and nobody with a row or two waits for thousands.
ALONE = 64
# While requests arrive within this many seconds of each other, a pass waits for more, up to the longest wait.
CLOSE_SECONDS = 0.003
LONGEST_GATHERING = 0.1


@dataclass
class Outputs:
    """The model's outputs for the rows of one request."""

    logits: Tensor  # [rows, outputs], `-inf` where the row's task has no class
    best: list[int]  # the position of each row's largest logit
    tasks: list[str]
    classes: Classes


@dataclass(slots=True)
class _Request:
    x: Array  # [rows, ...] float32, of the model's input shape
    tasks: str | list[str]
    done: asyncio.Future[Outputs]
    loop: asyncio.AbstractEventLoop
    result: Outputs | Exception | None = None

    @property
    def names(self) -> list[str]:
        return [self.tasks] * len(self.x) if isinstance(self.tasks, str) else self.tasks

    @property
    def large(self) -> bool:
        """Whether the request is predicted in a separate forward pass."""
        return len(self.x) > ALONE


class Batcher(Worker[_Request]):
    """One thread calls the model; each pass takes the requests that are waiting, up to a number of rows.

    Requests queue up while a pass runs, so batches grow with the load. After a pass that several requests shared, the
    next one also waits for requests that are just arriving, no longer than the last pass took; a single client never
    waits. The loader reads contexts from the bank beforehand; without one, the model's thread does.
    """

    def __init__(self, learner: Learner, limits: Limits, metrics: Metrics, loader: Loader | None = None) -> None:
        super().__init__("crwn-model")
        self.loader = loader
        self.learner = learner
        self.limits = limits
        self.metrics = metrics
        self.rows_at_once = min(ROWS_AT_ONCE, learner.resident.capacity)
        # Convolutions gain nothing from a context per row.
        self._mixes = widest_layer(learner.model) is not None
        self._waiting_rows = 0
        self._gathering = 0.0  # seconds that the next pass may wait for more requests

    def stop(self) -> None:
        """Processes the waiting requests, then ends the thread."""
        self.end()
        self.join()

    async def predict(self, x: Array, tasks: str | list[str]) -> Outputs:
        """Outputs for rows of the model's input shape, float32, computed together with other waiting requests.

        More rows than a pass takes are predicted part by part, so that other requests come in between.
        """
        size = self.rows_at_once
        if len(x) <= size:
            return await self._predict_part(x, tasks)
        parts = [
            await self._predict_part(x[at : at + size], tasks if isinstance(tasks, str) else tasks[at : at + size])
            for at in range(0, len(x), size)
        ]
        width = max(part.logits.shape[1] for part in parts)
        padded = [F.pad(part.logits, (0, width - part.logits.shape[1]), value=-torch.inf) for part in parts]
        return Outputs(
            torch.cat(padded),
            [i for part in parts for i in part.best],
            [name for part in parts for name in part.tasks],
            {name: classes for part in parts for name, classes in part.classes.items()},
        )

    async def _predict_part(self, x: Array, tasks: str | list[str]) -> Outputs:
        if self.loader is not None:
            await self.loader.load([tasks] if isinstance(tasks, str) else tasks)
        loop = asyncio.get_running_loop()
        request = _Request(x, tasks, loop.create_future(), loop)
        with self.changed:
            if self.stopping:
                raise ServeError.stopping()
            if self._waiting_rows + len(x) > self.limits.waiting_rows and self.queue:
                raise ServeError.busy("too many rows are waiting")
            self.queue.append(request)
            self._waiting_rows += len(x)
            self.changed.notify()
        late = loop.call_later(self.limits.predict_seconds, _give_up, request.done, self.limits.predict_seconds)
        try:
            return await request.done
        finally:
            late.cancel()

    def take(self) -> list[_Request]:
        self._gather()
        taken: list[_Request] = []
        large: _Request | None = None
        left: deque[_Request] = deque()
        rows = 0
        for request in self.queue:
            if request.done.done():  # nobody waits for it any more
                self._waiting_rows -= len(request.x)
            elif request.large and large is None:
                large = request
            elif not request.large and rows + len(request.x) <= self.rows_at_once:
                taken.append(request)
                rows += len(request.x)
            else:
                left.append(request)
        self.queue = left
        taken += [] if large is None else [large]
        self._waiting_rows -= sum(len(request.x) for request in taken)
        return taken

    def _gather(self) -> None:
        """Waits while further requests arrive, as long as `_gathering` allows."""
        until = time.perf_counter() + self._gathering
        while (left := until - time.perf_counter()) > 0 and self._waiting_rows < self.rows_at_once:
            known = len(self.queue)
            self.changed.wait(min(CLOSE_SECONDS, left))
            if len(self.queue) == known or self.stopping:
                return

    def handle(self, items: list[_Request]) -> None:
        began = time.perf_counter()
        for group in self._groups(items):
            try:
                self._predict(group)
            except Exception as error:
                log.exception("predicting failed")
                for request in group:
                    request.result = request.result or error
            _deliver(group)
        took = time.perf_counter() - began
        self._gathering = min(took, LONGEST_GATHERING) if len(items) > 1 else 0.0

    def _groups(self, requests: list[_Request]) -> list[list[_Request]]:
        """Splits requests into groups that share a forward pass."""
        alone = [[request] for request in requests if request.large]
        together = [request for request in requests if not request.large]
        if self._mixes:
            return [together, *alone] if together else alone
        by_task: dict[Any, list[_Request]] = {}
        for request in together:
            by_task.setdefault(request.tasks if isinstance(request.tasks, str) else id(request), []).append(request)
        return [*by_task.values(), *alone]

    def _predict(self, group: list[_Request]) -> None:
        try:
            self._predict_together(group)
        except CRWNError as error:
            if len(group) == 1:
                group[0].result = error
                return
            # One unknown task must not fail the requests beside it.
            for request in group:
                self._predict([request])

    def _predict_together(self, group: list[_Request]) -> None:
        names = [name for request in group for name in request.names]
        x = group[0].x if len(group) == 1 else np.concatenate([request.x for request in group])
        rows = rows_of(x, shape=self.learner.input_shape)  # one check of all values
        began, worked = time.perf_counter(), time.thread_time()
        logits, classes = self.logits(rows, names)
        self.metrics.model_seconds.inc(time.perf_counter() - began)
        self.metrics.model_cpu.inc(time.thread_time() - worked)
        self.metrics.rows.inc(len(rows))
        self.metrics.batch_rows.observe(len(rows))
        self.metrics.batch_requests.observe(len(group))
        finite = torch.isfinite(logits).sum(dim=1).tolist()
        best = logits.argmax(dim=1).tolist()
        at = 0
        for request in group:
            end = at + len(request.x)
            own = names[at:end]
            if finite[at:end] != [len(classes[name]) for name in own]:
                request.result = DataError("the outputs for these rows are not finite: their values are too large")
            else:
                request.result = Outputs(logits[at:end], best[at:end], own, {name: classes[name] for name in own})
            at = end

    def logits(self, rows: Rows, names: list[str]) -> tuple[Tensor, Classes]:
        """The model's outputs for these rows, each with its task, and the classes of the tasks."""
        different = list(dict.fromkeys(names))
        if len(different) == 1 or self._mixes:
            logits, _, classes = self.learner.logits(rows, names if len(different) > 1 else names[0])
            return logits, classes
        out = torch.full((len(rows), self.learner.outputs), -torch.inf)
        found: Classes = {}
        for name in different:
            at = torch.tensor([i for i, other in enumerate(names) if other == name])
            part, _, classes = self.learner.logits(rows.select(at), name)
            out[at, : part.shape[1]] = part
            found |= classes
        return out, found


def _give_up(done: asyncio.Future[Outputs], seconds: float) -> None:
    if not done.done():
        done.set_exception(ServeError(503, "timeout", f"no prediction within {seconds:g} s: try again"))


def _deliver(requests: Sequence[_Request]) -> None:
    """Sets the results of all requests with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in requests:
        by_loop.setdefault(request.loop, []).append(request)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, some)
        except RuntimeError:  # the loop is closed: nobody waits for these results
            continue


def _settle(requests: Sequence[_Request]) -> None:
    for request in requests:
        if request.done.done():
            continue
        if isinstance(request.result, Exception):
            request.done.set_exception(request.result)
        elif request.result is not None:
            request.done.set_result(request.result)
