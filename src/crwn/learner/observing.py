"""Tasks that a learner learns from streams, row by row."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crwn.contexts import Context, ContextInfo, check_label
from crwn.data import inputs
from crwn.data.standardize import NO_SCALING, Scaling, check_scaling
from crwn.errors import ConfigError, DataError
from crwn.layers import context_tensors
from crwn.learner.exact import BYTE_SCALING, ExactLearning
from crwn.learner.exact_args import check_as_begun
from crwn.training.exact import Solution, output_layer
from crwn.training.exact.solve import FIRST_RIDGE
from crwn.training.exact.stream import Stream

MOST_STREAMS = 16  # in memory; others are stored and read again
COMMIT_SECONDS = 1.0  # between two commits of a streamed task to the bank


@dataclass(frozen=True)
class Observation:
    """What one call of `observe` saw.

    Args:
        predicted: the labels predicted before the rows were learned.
        rows: rows seen in this stream so far.
        accuracy: prequential accuracy: the share of them that were predicted right before they were learned.
        drifts: positions of the rows at which drift was noticed.
        refreshed: whether the context was replaced.
    """

    predicted: list[Hashable]
    rows: int
    accuracy: float
    drifts: tuple[int, ...]
    refreshed: bool


class Observing(ExactLearning):
    """The part of a `Learner` that learns from streams."""

    _forgotten: set[str]
    _streams: dict[str, Stream]
    _committed: dict[str, float]
    _observing: threading.Lock

    def observe(
        self,
        task: str,
        x: Any,
        y: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        scaling: Scaling | None = None,
    ) -> Observation:
        """Predict rows of a stream, then learn them; the first call of a new task needs all its `classes`.

        Contexts of narrow models (2,048 features) follow every call; wider ones are solved again when a tenth more
        rows have come. Calls store the context in the bank, at most once a second; `settle` and `close` store all rows.

        Args:
            scaling: `(mean, deviation)` of raw rows of a new task; by default a constant for bytes, none otherwise.

        Raises:
            DataError: rows, labels, classes or a scaling that do not fit; nothing is counted or learned then.
        """
        with self._observing:
            stream = self._streams.pop(task, None)
            if stream is None:
                stream = self._begin(task, classes, scaling, np.asarray(x).dtype == np.uint8)
                self._make_room()
            try:
                begun = stream.statistics.classes, stream.statistics.scaling
                check_as_begun(task, begun, classes, scaling)
                ready = self._prepared(task, x, y, {}, self._as_context(task, stream))
                predicted, refreshed = stream.observe(ready.rows)
            finally:
                if stream.seen:
                    self._streams[task] = stream  # last: the most recently used
            late = time.monotonic() - self._committed.get(task, 0.0) > COMMIT_SECONDS
            if refreshed and late:
                self._commit(task)
            labels = [stream.statistics.classes[at] for at in predicted.tolist()]
            return Observation(labels, stream.seen, stream.accuracy or 0.0, tuple(stream.drifts), refreshed)

    def settle(self, task: str | None = None) -> None:
        """Learn all rows that were observed of a task, or of all tasks, and store them."""
        with self._observing:
            for name in list(self._streams) if task is None else [task]:
                if name in self._streams and self._streams[name].seen:
                    self._streams[name].settle()
                    self._commit(name)

    def _make_room(self) -> None:
        """Store and drop the streams that were not used for longest, where there are many."""
        while len(self._streams) >= MOST_STREAMS:
            oldest = next(iter(self._streams))
            self._streams[oldest].settle()
            self._commit(oldest)
            del self._streams[oldest]

    def _end_streams(self) -> None:
        """Store what was observed, and forget the streams."""
        self.settle()
        self._streams.clear()

    def forget(self, task: str) -> None:
        """Drop a task for good, with its statistics."""
        self._delete(task)
        self.resident.drop(task)
        self._streams.pop(task, None)
        self._forgotten.add(task)

    def _begin(self, task: str, classes: Sequence[Hashable] | None, scaling: Scaling | None, bytes_: bool) -> Stream:
        layer = output_layer(self._model_copy())
        if task in self.bank:
            context = self.bank.get(task)
            statistics = self._statistics.get(context)
            stream = Stream(layer, context.tensors, statistics, _blank(layer.width))
            stream.settle()
            return stream
        if classes is None:
            raise ConfigError(f'task "{task}" is new: give classes=, all labels that the stream can have')
        found = inputs.classes_of(inputs.plain_labels(classes))
        labels = tuple(check_label(label, task) for label in found)
        if not 2 <= len(labels) <= self.outputs:
            raise DataError(
                f'a stream of task "{task}" with {len(labels)} classes: this model takes 2 to {self.outputs} classes'
            )
        if scaling is not None:
            check_scaling(scaling, task)
        usual = (self.byte_scaling or BYTE_SCALING) if bytes_ else (self.float_scaling or NO_SCALING)
        statistics = self.no_statistics(labels, scaling or usual)
        return Stream(layer, context_tensors(self.model), statistics, _blank(layer.width))

    def _as_context(self, task: str, stream: Stream) -> Context:
        """A context with the classes and the scaling of the task, which is all that preparing its rows needs."""
        info = ContextInfo(scaling=stream.statistics.scaling)
        return Context(task, stream.tensors, stream.statistics.classes, self.fingerprint, info=info)

    def _commit(self, task: str) -> None:
        stream = self._streams[task]
        with self._statistics.locked():
            before = self.bank.get(task) if task in self.bank else None
            info = ContextInfo() if before is None else before.info
            self._store_solution(task, stream.tensors, stream.statistics, stream.solution, info, before=before)
        self._committed[task] = time.monotonic()


def _blank(width: int) -> Solution:
    return Solution(np.zeros(width), FIRST_RIDGE, 1.0, 1.0, 0.0)
