"""The unit of work of every engine, and engines by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from crwn.errors import ConfigError, ModelError
from crwn.layers import context_tensors
from crwn.models import Network, build, describe, fingerprint, network_of
from crwn.models.trained import trained_weights
from crwn.training.checkpoint import Checkpoint
from crwn.training.loop import Callback, Learned, train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

ENGINES = ("local", "processes", "ray")

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


class Work(Protocol[Result_co]):
    """A piece of work that depends on no other piece; engines with workers pickle it."""

    def do(self, callbacks: Sequence[Callback] = ()) -> Result_co:
        """Do the work here; `callbacks` receive every training step."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Does pieces of work, in any order, and yields the position and result of each as it is done."""

    def run(
        self, work: Sequence[Work[Result]], *, callbacks: Sequence[Callback] = ()
    ) -> Iterator[tuple[int, Result]]: ...


@dataclass(frozen=True)
class Training:
    """Train one stack of tasks.

    A network that its seed makes is pickled as its description, made again by the worker and compared by
    fingerprint; any other module is pickled whole.
    """

    model: nn.Module
    tasks: Sequence[PreparedTask]
    recipe: Recipe
    seed: int
    start: Sequence[Mapping[str, Tensor]] | None = None
    device: str | torch.device = "cpu"
    checkpoint: Checkpoint | None = None

    def do(self, callbacks: Sequence[Callback] = ()) -> list[Learned]:
        return train(
            self.model,
            self.tasks,
            self.recipe,
            seed=self.seed,
            start=self.start,
            device=self.device,
            callbacks=callbacks,
            checkpoint=self.checkpoint,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The model's own context travels too: a network made again starts from its seed, this one may have changed.
        own = context_tensors(self.model)
        start = [own] * len(self.tasks) if self.start is None else self.start
        described: dict[str, Any] | nn.Module = self.model
        if network_of(self.model).rebuildable and not trained_weights(self.model):
            described = describe(self.model)
        sent = (self.tasks, self.recipe, self.seed, start, str(torch.device(self.device)), self.checkpoint)
        return _training, (described, fingerprint(self.model), *sent)


def _training(described: dict[str, Any] | nn.Module, expected: str, *rest: Any) -> Training:
    model = _rebuilt(json.dumps(described), expected) if isinstance(described, dict) else described
    return Training(model, *rest)


@lru_cache(maxsize=2)
def _rebuilt(described: str, expected: str) -> Network:
    """The described network, made once in every worker and compared with the original."""
    network = build(json.loads(described))
    found = fingerprint(network)
    if found != expected:
        raise ModelError(
            f"a worker made model {found[:12]}..., the original is {expected[:12]}...: install the same crwn everywhere"
        )
    return network


def make_engine(
    engine: str | Engine, *, threads: int | None = None, address: str | None = None, workers: int | None = None
) -> Engine:
    """An engine by name ("local", "processes" or "ray"); an engine itself is returned as it is.

    Args:
        threads: of every worker; by default the engine's own choice.
        address: of a Ray cluster.
        workers: how many; by default as many as there are cores for.
    """
    if not isinstance(engine, str):
        return engine
    if engine == "local":
        from crwn.training.engines.local import LocalEngine

        return LocalEngine()
    if engine == "processes":
        from crwn.training.engines.processes import ProcessEngine

        return ProcessEngine(threads=threads or 1, workers=workers)
    if engine == "ray":
        from crwn.training.engines.ray import RayEngine

        return RayEngine(address=address, threads=threads, workers=workers)
    raise ConfigError(f'unknown engine "{engine}": choose {", ".join(ENGINES[:-1])} or {ENGINES[-1]}')
