"""BatchE: weights trained by the first task and then frozen, and a rank-one scaling of them for every task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from crwn.layers import context_tensors, learned_parameters, product
from crwn.layers.weights import named_generator
from crwn.methods.independent import Independent, float_bytes, statistics_note, stored_values
from crwn.methods.initial_weights import kaiming_normal
from crwn.methods.method import Counts
from crwn.methods.networks import KernelConv2d, baseline_network
from crwn.methods.published import TunedOptions, published_recipe, tuned
from crwn.scenarios import Task
from crwn.training.recipe import Recipe

FIRST_RATES = {"paper": 1e-4, "best": 3e-4}  # of the first task, which trains the shared weights


class BatchELinear(nn.Module):
    """`y = s ⊙ (W (t ⊙ x))`.

    Frozen: W, which starts as `N(0, 2 / in)` and is trained by the first task only.
    Learned by every task: s `[out]` and t `[in]`, which `BatchE.start` sets to random signs.
    """

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        weight = kaiming_normal((out_features, in_features), seed=seed, name=f"dense:{name}")
        self.register_buffer("weight", weight, persistent=False)
        self.s = nn.Parameter(torch.ones(out_features))
        self.t = nn.Parameter(torch.ones(in_features))

    def forward(self, x: Tensor) -> Tensor:
        return self.s * product(x * self.t, self.weight)


class BatchEConv2d(KernelConv2d):
    """`y = s ⊙ (W conv (t ⊙ x))`, computed as `(s W t) conv x`.

    Frozen: W, which starts as `N(0, 2 / fan_in)` and is trained by the first task only.
    Learned by every task: s, one value per output channel, and t, one per input channel, which `BatchE.start` sets to
    random signs.
    """

    weight: Tensor

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        self.register_buffer("weight", kaiming_normal(shape, seed=seed, name=f"dense:{name}"), persistent=False)
        self.s = nn.Parameter(torch.ones(shape[0]))
        self.t = nn.Parameter(torch.ones(shape[1]))

    def kernel(self) -> Tensor:
        # Scaling the kernel costs far less than scaling the images.
        spatial = (1,) * (self.weight.ndim - 2)
        return self.weight * self.s.view(-1, 1, *spatial) * self.t.view(-1, *spatial)


class BatchE(Independent):
    """`y = s_k ⊙ (W (t_k ⊙ x))` in every layer: the first task trains W, every task k learns its own s_k and t_k."""

    name = "batche"
    sizes = ("256",)

    class Options(TunedOptions):
        first_rate: float | None = Field(
            None, gt=0, description="rate of the first task, which trains the shared weights; 1e-4 in the paper"
        )

    @property
    def settings(self) -> Options:
        return cast(BatchE.Options, self.options)

    def network(self) -> nn.Module:
        return baseline_network(self.scenario, self.size, BatchELinear, BatchEConv2d, seed=self.seed, method=self.name)

    def first_trains(self) -> list[str]:
        return [name for name, _ in self.model.named_buffers() if name.endswith("weight")]

    def first_recipe(self, recipe: Recipe) -> Recipe:
        found = self.settings.first_rate
        return recipe.model_copy(update={"rate": found or FIRST_RATES[self.settings.recipe]})

    def start(self, task: Task) -> Mapping[str, Tensor]:
        """Random signs drawn for this task in s and t; batch-norm statistics as the network has them."""
        random = named_generator("batche", self.seed, task.name)
        start = context_tensors(self.model)
        for name, parameter in self.model.named_parameters():
            signs = random.integers(0, 2, parameter.shape).astype(np.float32) * 2 - 1
            start[name] = torch.from_numpy(signs)
        return start

    def recipe(self, **overrides: object) -> Recipe:
        best = tuned(self.name, self.options, self.scenario)
        return published_recipe(self.scenario, best | overrides, rate=0.01, image_rate=0.01)

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        shared = sum(self.model.get_buffer(name).numel() for name in self.first_trains())
        kept = float_bytes(stored_values(self.model)) + float_bytes(shared) // tasks
        note = "s and t as float32, and the weights the first task trained spread over the tasks"
        return Counts(own, own + shared / tasks, kept, note + statistics_note(self.model))
