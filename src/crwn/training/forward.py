"""The forward pass of one step: logits of a stack of tasks, each with its own context and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.layers.weights import named_generator
from crwn.models import network_of
from crwn.models.convert.checks import check_logits, readable_errors
from crwn.models.vectorize import stacked
from crwn.training.compilation import compiled
from crwn.training.precision import Precision, computing_in
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

Tensors = dict[str, Tensor]


class ForwardPass:
    """Computes logits `[tasks, batch, outputs]` from contexts `[tasks, ...]` and inputs `[tasks, batch, ...]`.

    Args:
        network: the network; it is called by this object alone.
        tasks: the tasks of the stack.
        recipe: its `compile` decides whether `torch.compile` is used.
        seed: random numbers that a custom module draws (dropout) depend on it, the tasks' names and the step alone.
    """

    def __init__(
        self, network: nn.Module, tasks: Sequence[PreparedTask], recipe: Recipe, *, seed: int, device: torch.device
    ) -> None:
        self.network = network
        self.names = tuple(task.name for task in tasks)
        self.seed = seed
        self.device = device
        self.pure = network_of(network).pure
        forward = _stacked_forward(network, len(tasks), max(task.classes for task in tasks), recipe.precision)
        self._forward = compiled(forward) if recipe.compile else forward

    def __call__(self, tensors: Tensors, x: Tensor, step: int) -> Tensor:
        with readable_errors(self.network, x[0]):
            if self.pure:
                return self._forward(tensors, x)
            with self._seeded(step):
                return self._forward(tensors, x)

    @contextmanager
    def _seeded(self, step: int) -> Iterator[None]:
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(named_generator("noise", self.seed, *self.names, step).integers(2**63)))
            yield


def _stacked_forward(
    network: nn.Module, count: int, classes: int, precision: Precision
) -> Callable[[Tensors, Tensor], Tensor]:
    """(contexts `[tasks, ...]`, inputs `[tasks, batch, ...]`) -> logits `[tasks, batch, outputs]`."""
    can = network_of(network)
    call, pure = can.caller(), can.pure

    def one(tensors: Tensors, x: Tensor) -> Tensor:
        with computing_in(precision, x.device.type):
            logits = call(tensors, x)
        if not pure:
            check_logits(logits, len(x), classes)
        return logits

    if count == 1:
        return lambda tensors, x: one({name: value[0] for name, value in tensors.items()}, x[0])[None]
    if can.rowwise:
        # v as [tasks, 1, in] and alpha as [tasks, 1, 1] do for whole stacks what vmap does, with less to set up.
        return lambda tensors, x: one({name: value.view(count, 1, -1) for name, value in tensors.items()}, x)
    return stacked(one, randomness="different")
