"""Labelled rows gathered by index: what a task is taught from, without a copy of the data per task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from crwn.errors import DataError

Prepare = Callable[[Tensor], Tensor]
Augment = Callable[[Tensor, np.random.Generator], Tensor]


def as_float(batch: Tensor) -> Tensor:
    """Raw rows as float32 and nothing else."""
    return batch.to(torch.float32)


@dataclass(frozen=True)
class Rows:
    """Rows of `x` with class indices `y`, turned into model inputs only when they are gathered.

    Args:
        x: raw rows, `[N, ...]`, uint8 or float; many tasks may share it, and it may be memory-mapped.
        y: class index of every row of this task, `[M]` int64, or None where there are no labels.
        index: which of `x`'s rows are this task's, `[M]`; None for all of them.
        prepare: raw batch -> float32 model inputs (pixel map, normalisation).
        augment: random change of a raw training batch as a whole, given the generator to draw from.
        weight: sample weights, `[M]` float32, or None for equal ones.
    """

    x: Tensor
    y: Tensor | None = None
    index: Tensor | None = None
    prepare: Prepare = as_float
    augment: Augment | None = None
    weight: Tensor | None = None

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
        # Copies whole rows, several times faster than indexing with a tensor.
        return self.x[rows] if isinstance(rows, slice) else self.x.index_select(0, rows)

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        """Model inputs at these positions; augmented when a generator is given and the rows have an augmentation."""
        batch = self.raw(at)
        if self.augment is not None and generator is not None:
            batch = self.augment(batch, generator)
        return self.prepare(batch)

    def labels(self, at: Tensor | slice) -> Tensor:
        if self.y is None:
            raise DataError("these rows have no labels: learning and scoring need one for each row")
        return self.y[at]

    def batches(self, size: int) -> Iterator[Tensor]:
        """Model inputs of all rows in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.inputs(slice(start, start + size))

    def select(self, at: Tensor) -> Rows:
        """The rows at these positions as rows of their own, still without a copy of `x`."""
        index = at if self.index is None else self.index[at]
        return Rows(
            self.x,
            None if self.y is None else self.y[at],
            index,
            self.prepare,
            self.augment,
            None if self.weight is None else self.weight[at],
        )


@dataclass(frozen=True)
class TaskRows:
    """A task as the loop needs it: a name, its rows, how many classes, and rows to stop early by."""

    name: str
    rows: Rows
    classes: int
    validation: Rows | None = None


class StackedRows:
    """Batches of several tasks as one tensor; rows that all tasks share are gathered once."""

    def __init__(self, tasks: Sequence[Rows]) -> None:
        self.tasks = tasks
        self.weighted = any(rows.weight is not None for rows in tasks)
        first = tasks[0]
        join = getattr(type(first.prepare), "joined", None)
        shared = all(
            type(rows) is Rows  # others may gather in ways of their own
            and rows.x is first.x
            and rows.index is None
            and rows.augment is None
            and type(rows.prepare) is type(first.prepare)
            for rows in tasks
        )
        self._prepare: Prepare | None = join([rows.prepare for rows in tasks]) if shared and join is not None else None

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


def named_generator(*key: object) -> np.random.Generator:
    """A random generator that depends on nothing but these names and numbers (in any process, on any machine)."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in key).encode()).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], dtype=np.uint64)))


def visiting_order(count: int, batch_size: int, steps: int, *, seed: int, name: str) -> Iterator[Tensor]:
    """Positions of `steps` batches: every epoch visits all rows once in a new order drawn from seed and task name.

    A single row that would be left for the last batch gets company from the one before: batch norm needs two.
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
