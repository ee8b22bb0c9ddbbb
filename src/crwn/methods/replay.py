"""Replay: one network, taught each task together with rows kept of earlier ones, in a buffer of fixed bytes."""

from __future__ import annotations

from typing import cast

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from crwn.errors import ConfigError
from crwn.layers import learned_numbers
from crwn.methods import method
from crwn.methods.independent import float_bytes, kept_numbers, statistics_note
from crwn.methods.joined_rows import JoinedRows, MixedRows
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.rows import Rows, TaskRows, named_generator
from crwn.scenarios import Scenario, Task

LABEL_BYTES = 2


class Replay(OneNetwork):
    """`y = W x` in every layer: every batch of the new task is joined by as many rows kept of earlier tasks.

    The buffer holds raw rows (pixels as bytes, where they are) and their labels, equally many of every task; a new
    task takes its share from the others.
    """

    name = "replay"
    sizes = ("256",)

    class Options(method.Options):
        buffer_bytes: int = Field(1_000_000, ge=1, description="what all rows and labels kept may take together")

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.tasks = {task.name: task for task in scenario}
        self.kept: dict[str, tuple[Tensor, Tensor]] = {}  # raw rows and labels of every task, in the order learned
        self._share(len(scenario))  # too small a buffer is told now, not after hours

    @property
    def settings(self) -> Options:
        return cast(Replay.Options, self.options)

    def lesson(self, task: Task) -> TaskRows:
        if not self.kept:
            return super().lesson(task)
        classes = [len(self.tasks[name].classes) for name in self.kept]
        return TaskRows(task.name, self._mixed(task), max(len(task.classes), *classes))

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        super().keep(task, tensors)
        self._remember(task)

    def _mixed(self, task: Task) -> Rows:
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
        row = self.scenario[0].train.raw(slice(0, 1))
        bytes_per_row = row.nbytes + LABEL_BYTES
        rows = self.settings.buffer_bytes // (bytes_per_row * tasks)
        if rows == 0:
            raise ConfigError(
                f"a replay buffer of {self.settings.buffer_bytes} bytes does not hold a row of {bytes_per_row} bytes "
                f"for each of {tasks} tasks: give more buffer_bytes"
            )
        return rows

    def _remember(self, task: Task) -> None:
        share = self._share(len(self.kept.keys() | {task.name}))
        order = named_generator("buffer", self.seed, task.name).permutation(len(task.train))[:share]
        at = torch.from_numpy(order)
        self.kept[task.name] = (task.train.raw(at), task.train.labels(at).to(torch.int16))
        # Rows are kept in random order, so the first ones of a task are as good a sample as any.
        self.kept = {name: (x[:share].clone(), y[:share].clone()) for name, (x, y) in self.kept.items()}

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        own = float_bytes(kept_numbers(self.model) - weights)
        share = self._share(tasks)
        row = self.scenario[0].train.raw(slice(0, 1)).nbytes + LABEL_BYTES
        kept = [min(share, len(task.train)) for task in self.scenario[:tasks]]
        buffer = row * sum(kept) * tasks // len(kept)  # the scenario may have fewer tasks than are asked about
        note = f"all tasks train the same weights; float32, and {buffer:,} bytes of rows, all spread over the tasks"
        note += statistics_note(self.model)
        return Counts(weights, weights / tasks, (float_bytes(weights) + buffer) // tasks + own, note)

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
