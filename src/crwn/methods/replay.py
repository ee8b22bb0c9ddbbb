"""Replay: one network trained on every task together with stored rows of earlier tasks, in a buffer of fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from pydantic import BaseModel, Field
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.layers.weights import named_generator
from crwn.methods.dense import DenseOptions
from crwn.methods.joined_rows import JoinedRows
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.scenarios import Scenario, Task
from crwn.training.task import PreparedTask

LABEL_BYTES = 2


class Replay(OneNetwork):
    """`y = W x` in every layer: every batch of the new task is extended by as many stored rows of earlier tasks.

    The buffer holds raw rows (pixels as bytes, where the dataset has bytes) and their labels, equally many of every
    task; rows of earlier tasks are dropped to make room for a new one.
    """

    name = "replay"
    sizes = ("256",)

    class Options(DenseOptions):
        buffer_bytes: int = Field(1_000_000, ge=1, description="size of the buffer, rows and labels together")

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.tasks = {task.name: task for task in scenario}
        self.kept: dict[str, tuple[Tensor, Tensor]] = {}  # raw rows and labels of every task, in the order learned
        self._share(len(scenario))  # raises for a buffer that is too small now, not after hours of training

    @property
    def settings(self) -> Options:
        return cast(Replay.Options, self.options)

    def prepared(self, task: Task) -> PreparedTask:
        if not self.kept:
            return super().prepared(task)
        classes = [len(self.tasks[name].classes) for name in self.kept]
        return PreparedTask(task.name, self._mixed(task), range(max(len(task.classes), *classes)))

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        super().keep(task, tensors)
        self._store(task)

    def _mixed(self, task: Task) -> Rows:
        """The rows of the task, each with a partner drawn from the buffer."""
        earlier = []
        for name, (x, y) in self.kept.items():
            source = self.tasks[name].train
            earlier.append(Rows(x, y.to(torch.int64), prepare=source.prepare, augment=source.augment))
        buffer = JoinedRows.of(earlier)
        partners = named_generator("replay", self.seed, task.name).integers(0, len(buffer), len(task.train))
        new = task.train
        return MixedRows(
            new.x, new.y, new.index, new.prepare, new.augment, buffer=buffer, partners=torch.from_numpy(partners)
        )

    def _share(self, tasks: int) -> int:
        """How many rows the buffer holds of each of this many tasks."""
        bytes_per_row = self._bytes_per_row()
        rows = self.settings.buffer_bytes // (bytes_per_row * tasks)
        if rows == 0:
            raise ConfigError(
                f"a replay buffer of {self.settings.buffer_bytes} bytes does not hold a row of {bytes_per_row} bytes "
                f"for each of {tasks} tasks: give more buffer_bytes"
            )
        return rows

    def _bytes_per_row(self) -> int:
        return self.scenario[0].train.raw(slice(0, 1)).nbytes + LABEL_BYTES

    def _store(self, task: Task) -> None:
        """Add a random sample of the task's rows to the buffer, and shorten the other tasks' samples."""
        share = self._share(len(self.kept.keys() | {task.name}))
        order = named_generator("buffer", self.seed, task.name).permutation(len(task.train))[:share]
        at = torch.from_numpy(order)
        self.kept[task.name] = (task.train.raw(at), task.train.labels(at).to(torch.int16))
        # Stored rows are in random order, so the first ones are a random sample too.
        self.kept = {name: (x[:share].clone(), y[:share].clone()) for name, (x, y) in self.kept.items()}

    def counts(self, tasks: int) -> Counts:
        share = self._share(tasks)
        kept = [min(share, len(task.train)) for task in self.scenario[:tasks]]
        buffer = self._bytes_per_row() * sum(kept) * tasks // len(kept)  # `tasks` may exceed those of the scenario
        note = f"all tasks train the same weights; float32, and {buffer:,} bytes of rows, all spread over the tasks"
        return self.shared_counts(tasks, note, more_bytes=buffer)

    def shared_state(self) -> dict[str, Tensor]:
        state = super().shared_state()
        for position, (name, (x, y)) in enumerate(self.kept.items()):
            state |= {f"buffer/{position}/x/{name}": x, f"buffer/{position}/y/{name}": y}
        return state

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        super().restore(task_states, shared)
        found: dict[int, tuple[str, dict[str, Tensor]]] = {}
        for key, value in shared.items():
            if key.startswith("buffer/"):
                _, position, part, name = key.split("/", 3)
                found.setdefault(int(position), (name, {}))[1][part] = value
        self.kept = {name: (parts["x"], parts["y"]) for _, (name, parts) in sorted(found.items())}


@dataclass(frozen=True, kw_only=True)
class MixedRows(Rows):
    """New rows, each with a partner from the buffer: a batch of n positions has the n new rows, then their partners."""

    buffer: Rows
    partners: Tensor  # [rows]: fixed, so that a batch depends on its positions alone

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        new = super().inputs(at, generator=generator)
        return torch.cat([new, self.buffer.inputs(self.partners[at], generator=generator)])

    def labels(self, at: Tensor | slice) -> Tensor:
        return torch.cat([super().labels(at), self.buffer.labels(self.partners[at])])
