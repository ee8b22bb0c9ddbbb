"""Labelled rows gathered by index, so that many tasks share one array without a copy per task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from crwn.errors import DataError
from crwn.layers.weights import named_generator

Prepare = Callable[[Tensor], Tensor]
Augment = Callable[[Tensor, np.random.Generator], Tensor]


def as_float(batch: Tensor) -> Tensor:
    """Convert raw rows to float32."""
    return batch.to(torch.float32)


@dataclass(frozen=True)
class Rows:
    """Rows of `x` with class indices `y`, converted to model inputs when they are gathered.

    Args:
        x: raw rows, `[N, ...]`, uint8 or float; many tasks may share it, and it may be memory-mapped.
        y: class index of every row of this task, `[M]` int64, or None where there are no labels.
        index: positions in `x` of the rows of this task, `[M]`; None for all of them.
        prepare: raw batch -> float32 model inputs (pixel map, standardization).
        augment: random augmentation of a raw training batch, given the generator to draw from.
        weight: sample weights, `[M]` float32, or None for equal ones.
        standardized: whether `prepare` returns complete model inputs, so that no task's scaling is applied on top.
    """

    x: Tensor
    y: Tensor | None = None
    index: Tensor | None = None
    prepare: Prepare = as_float
    augment: Augment | None = None
    weight: Tensor | None = None
    standardized: bool = False

    def __post_init__(self) -> None:
        count = len(self)
        for name, values in (("labels", self.y), ("sample weights", self.weight)):
            if values is not None and len(values) != count:
                raise DataError(f"{count} rows but {len(values)} {name}: there must be one for each row")

    def __len__(self) -> int:
        return len(self.x) if self.index is None else len(self.index)

    def raw(self, at: Tensor | slice) -> Tensor:
        """The raw rows at these positions of the task."""
        rows = at if self.index is None else self.index[at]
        # index_select copies whole rows and is several times faster than indexing with a tensor.
        return self.x[rows] if isinstance(rows, slice) else self.x.index_select(0, rows)

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        """Model inputs at these positions; augmented when a generator is given and the rows have an augmentation."""
        batch = self.raw(at)
        if self.augment is not None and generator is not None:
            batch = self.augment(batch, generator)
        return self.prepare(batch)

    def labels(self, at: Tensor | slice) -> Tensor:
        """Class indices at these positions."""
        if self.y is None:
            raise DataError("these rows have no labels: learning and scoring need one for each row")
        return self.y[at]

    def batches(self, size: int) -> Iterator[Tensor]:
        """Model inputs of all rows in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.inputs(slice(start, start + size))

    def select(self, at: Tensor) -> Rows:
        """The rows at these positions, without a copy of `x`."""
        index = at if self.index is None else self.index[at]
        return Rows(
            self.x,
            None if self.y is None else self.y[at],
            index,
            self.prepare,
            self.augment,
            None if self.weight is None else self.weight[at],
            self.standardized,
        )

    def labelled(self, y: Tensor) -> Rows:
        """The same rows with other class indices."""
        return Rows(self.x, y, self.index, self.prepare, self.augment, self.weight, self.standardized)

    def without_augmentation(self) -> Rows:
        """The same rows without augmentation, for evaluation."""
        return Rows(self.x, self.y, self.index, self.prepare, None, self.weight, self.standardized)


@runtime_checkable
class Joinable(Protocol):
    """A preparation of inputs that one operation can do for several tasks."""

    @staticmethod
    def joined(every: Sequence[Any], /) -> Prepare | None:
        """The preparation of stacked inputs `[tasks, batch, ...]`; None where these cannot be joined."""


class StackedRows:
    """Batches of several tasks as one tensor; tasks that share their rows are gathered in one operation."""

    def __init__(self, tasks: Sequence[Rows]) -> None:
        self.tasks = tasks
        self.weighted = any(rows.weight is not None for rows in tasks)
        first = tasks[0]
        shared = all(
            type(rows) is Rows  # subclasses may gather differently
            and rows.x is first.x
            and rows.index is None
            and rows.augment is None
            and type(rows.prepare) is type(first.prepare)
            for rows in tasks
        )
        self._prepare: Prepare | None = None
        if shared and isinstance(first.prepare, Joinable):
            self._prepare = first.prepare.joined([rows.prepare for rows in tasks])

    def inputs(self, at: Sequence[Tensor], generators: Sequence[np.random.Generator | None]) -> Tensor:
        """Model inputs `[tasks, batch, ...]` at these positions of each task."""
        if self._prepare is not None:
            raw = self.tasks[0].raw(torch.cat(list(at)))
            return self._prepare(raw.view(len(at), -1, *raw.shape[1:]))
        every = zip(self.tasks, at, generators, strict=True)
        return torch.stack([rows.inputs(places, generator=generator) for rows, places, generator in every])

    def labels(self, at: Sequence[Tensor]) -> Tensor:
        """Class indices `[tasks, batch]`."""
        return torch.stack([rows.labels(places) for rows, places in zip(self.tasks, at, strict=True)])

    def weights(self, at: Sequence[Tensor]) -> Tensor | None:
        """Sample weights `[tasks, batch]`, ones for a task without; None where no task has any."""
        if not self.weighted:
            return None
        every = zip(self.tasks, at, strict=True)
        return torch.stack([torch.ones(len(p)) if rows.weight is None else rows.weight[p] for rows, p in every])


def visiting_order(count: int, batch_size: int, steps: int, *, seed: int, name: str) -> Iterator[Tensor]:
    """Yield the positions of `steps` batches: every epoch visits all rows once, shuffled by seed and task name.

    Where the last batch of an epoch would have a single row, it takes one from the batch before: batch norm needs two.
    """
    cuts = [*range(0, count, batch_size), count]
    if count % batch_size == 1 and count > batch_size > 2:
        cuts[-2] -= 1
    step, epoch = 0, 0
    while step < steps:
        order = torch.from_numpy(named_generator("order", seed, name, epoch).permutation(count))
        for start, stop in pairwise(cuts):
            yield order[start:stop]
            step += 1
            if step == steps:
                return
        epoch += 1
