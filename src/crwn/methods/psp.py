"""PSP: one set of weights that every task trains, with the inputs of every layer rotated by the task's own matrix."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Literal, cast

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.layers import learned_parameters, product
from crwn.layers.weights import gaussian, named_generator
from crwn.methods import method
from crwn.methods.independent import float_bytes, statistics_note, stored_values
from crwn.methods.initial_weights import kaiming_normal, random_signs, xavier_normal
from crwn.methods.method import Counts
from crwn.methods.networks import KernelConv2d, baseline_network
from crwn.methods.one_network import OneNetwork
from crwn.methods.published import published_recipe
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario, Task
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

SEED_BYTES = 8


class PSPLinear(nn.Module):
    """`y = W (C x)`.

    Frozen: nothing; with `learned=False` the rotation C of the task, a random orthogonal matrix `[in, in]`.
    Learned: W, which all tasks share and which starts as `N(0, 2 / (in + out))`, and the task's own C, which starts as
    its random rotation.
    """

    rotation: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str, learned: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_normal((out_features, in_features), seed=seed, name=f"dense:{name}"))
        self.rotation = nn.Parameter(torch.eye(in_features), requires_grad=learned)

    def forward(self, x: Tensor) -> Tensor:
        return product(product(x, self.rotation), self.weight)


class PSPConv2d(KernelConv2d):
    """`y = (W ⊙ o) conv x`: the binary form of PSP.

    Frozen: the random signs o `[1, in, height, width]` of the task in use; ones until `use_task`.
    Learned: W, which all tasks share and which starts as `N(0, 2 / fan_in)`.
    """

    signs: Tensor

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        self.weight = nn.Parameter(kaiming_normal(shape, seed=seed, name=f"dense:{name}"))
        self.register_buffer("signs", torch.ones(1, *shape[1:]), persistent=False)

    def kernel(self) -> Tensor:
        return self.weight * self.signs

    def use_task(self, *, seed: int, name: str) -> None:
        """Set the signs to those drawn from the task's seed for the layer of this name."""
        self.signs = random_signs(tuple(self.signs.shape), seed=seed, name=f"signs:{name}")


class PSP(OneNetwork):
    """`y = W (C_k x)` in every layer: every task trains W and its own C_k, which starts as a random rotation.

    On images `y = (W ⊙ o_k) conv x` with fixed random signs o_k.
    """

    name = "psp"
    one_head = False
    sizes = ("256",)

    class Options(method.Options):
        rotations: Literal["learned", "fixed"] = Field(
            "learned", description="on flat rows: whether a task trains its rotations or keeps them as drawn"
        )

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        if "rotations" in options.model_fields_set and has_images(scenario):
            raise ConfigError("rotations is for flat rows: on images a task has fixed random signs")
        self.rotations: dict[str, dict[str, Tensor]] = {}  # that tasks have trained, by task name
        self.weights = {name: value for name, value in self.weights.items() if not _is_rotation(name)}
        self._in_use: int | None = None  # the seed of the task whose signs or fixed rotations are in the network

    def network(self) -> nn.Module:
        linear = partial(PSPLinear, learned=self.learns_rotations)
        return baseline_network(self.scenario, self.size, linear, PSPConv2d, seed=self.seed, method=self.name)

    @property
    def learns_rotations(self) -> bool:
        """Whether a task trains its rotations."""
        return cast(PSP.Options, self.options).rotations == "learned"

    @property
    def predictions_depend_on_task(self) -> bool:
        return True

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-4, image_rate=1e-3)

    def start(self, task: Task) -> dict[str, Tensor]:
        return self.tensors(task)

    def prepared(self, task: Task) -> PreparedTask:
        self._use_task(task)
        return super().prepared(task)

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        super().keep(task, {name: value for name, value in tensors.items() if not _is_rotation(name)})
        if self.learns_rotations:
            self.rotations[task.name] = {name: value for name, value in tensors.items() if _is_rotation(name)}

    def tensors(self, task: Task) -> dict[str, Tensor]:
        """The current weights with what belongs to this task: its rotations, or its batch-norm statistics."""
        own = self.rotations.get(task.name) or (self.initial_rotations(task) if self.learns_rotations else {})
        return super().tensors(task) | own

    def logits(self, task: Task, rows: Rows) -> Tensor:
        self._use_task(task)
        return super().logits(task, rows)

    def counts(self, tasks: int) -> Counts:
        rotations = sum(layer.rotation.numel() for layer in self.model.modules() if isinstance(layer, PSPLinear))
        weights = sum(value.numel() for name, value in self.model.named_parameters() if not _is_rotation(name))
        statistics = stored_values(self.model) - learned_parameters(self.model)
        counted = f"{weights:,} weights, trained again by every task"
        own, stored = SEED_BYTES, f"{SEED_BYTES} bytes of seed for the signs"
        if rotations:
            trained = "of rotations that it trains" if self.learns_rotations else "of fixed rotations"
            counted += f", and {rotations:,} values {trained}"
            stored = f"{SEED_BYTES} bytes of seed for these"
        if self.learns_rotations and rotations:
            own, stored = float_bytes(rotations), "its rotations as float32"
        note = f"as the paper counts: {counted}; stored are {stored}, and the float32 weights spread over the tasks"
        stored_bytes = own + float_bytes(statistics) + float_bytes(weights) // tasks
        return Counts(weights + rotations, weights + rotations, stored_bytes, note + statistics_note(self.model))

    def task_state(self, task: Task) -> dict[str, Tensor]:
        state = super().task_state(task) | self.rotations.get(task.name, {})
        return state if self.rotations else state | {"seed": torch.tensor(self.task_seed(task))}

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        super().restore(task_states, shared)
        for task, state in task_states.items():
            trained = {name: value for name, value in state.items() if _is_rotation(name)}
            if trained:
                self.rotations[task] = trained

    def task_seed(self, task: Task) -> int:
        """The seed from which the task's rotations or signs are drawn."""
        return int(named_generator("psp", self.seed, task.name).integers(2**63))

    def initial_rotations(self, task: Task) -> dict[str, Tensor]:
        """The random rotations of a task before it is learned; empty on images."""
        seed = self.task_seed(task)
        return {
            f"{name}.rotation": random_rotation(len(layer.rotation), seed=seed, name=name)
            for name, layer in self.model.named_modules()
            if isinstance(layer, PSPLinear)
        }

    def _use_task(self, task: Task) -> None:
        """Put what a task does not learn into the network: its signs or fixed rotations."""
        seed = self.task_seed(task)
        if self._in_use == seed:
            return
        for name, layer in self.model.named_modules():
            if isinstance(layer, PSPConv2d):
                layer.use_task(seed=seed, name=name)
            elif isinstance(layer, PSPLinear) and not self.learns_rotations:
                layer.rotation.data = random_rotation(len(layer.rotation), seed=seed, name=name).clone()
        self._in_use = seed


def _is_rotation(name: str) -> bool:
    return name.endswith(".rotation")


@lru_cache(maxsize=4)
def random_rotation(size: int, *, seed: int, name: str) -> Tensor:
    """A random orthogonal matrix, uniform over all of them (Haar): Q of a Gaussian's QR with R's signs."""
    drawn, _ = gaussian((size, size), seed=seed, name=f"rotation:{name}", std=1 / math.sqrt(size))
    q, r = torch.linalg.qr(drawn.double())
    rotation: Tensor = (q * r.diagonal().sign()).float()
    return rotation
