"""A piece of independent work, and what every engine does with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.recipe import Recipe
from crwn.rows import TaskRows
from crwn.training import Callback, Learned, train


@dataclass(frozen=True)
class Work:
    """Tasks to learn as one stack: nothing in it depends on other work."""

    model: nn.Module
    tasks: Sequence[TaskRows]
    recipe: Recipe
    seed: int
    start: Sequence[Mapping[str, Tensor]] | None = None
    device: str | torch.device = "cpu"

    def do(self, callbacks: Sequence[Callback] = ()) -> list[Learned]:
        return train(
            self.model,
            self.tasks,
            self.recipe,
            seed=self.seed,
            start=self.start,
            device=self.device,
            callbacks=callbacks,
        )


ENGINES = ("local", "processes", "ray")
Done = Iterator[tuple[int, list[Learned]]]


@runtime_checkable
class Engine(Protocol):
    """Does pieces of work, in any order, and gives each one's number and result as it is done."""

    def run(
        self, work: Sequence[Work], *, callbacks: Sequence[Callback] = ()
    ) -> Iterator[tuple[int, list[Learned]]]: ...


def make_engine(engine: str | Engine) -> Engine:
    """An engine by name: "local", "processes" or "ray"."""
    if not isinstance(engine, str):
        return engine
    if engine == "local":
        from crwn.engine.local import LocalEngine

        return LocalEngine()
    if engine == "processes":
        from crwn.engine.processes import ProcessEngine

        return ProcessEngine()
    if engine == "ray":
        from crwn.engine.on_ray import RayEngine

        return RayEngine()
    raise ConfigError(f'unknown engine "{engine}": choose {", ".join(ENGINES[:-1])} or {ENGINES[-1]}')


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
