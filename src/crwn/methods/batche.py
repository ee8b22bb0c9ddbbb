"""BatchE: weights learned on the first task, and for every task a learned rank-one scaling of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from crwn.layers import context_tensors, learned_numbers
from crwn.methods import method
from crwn.methods.image_networks import RankOneKernel, baseline
from crwn.methods.independent import Independent, float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.networks import RankOne
from crwn.methods.published import published_recipe
from crwn.recipe import Recipe
from crwn.rows import named_generator
from crwn.scenarios import Task


class BatchE(Independent):
    """`y = s_k ⊙ (W (t_k ⊙ x))` in every layer: the first task trains W, every task learns its own s and t."""

    name = "batche"
    sizes = ("256",)

    class Options(method.Options):
        first_rate: float = Field(1e-4, gt=0, description="rate of the first task, which trains the shared weights")

    def network(self) -> nn.Module:
        return baseline(
            self.scenario,
            self.size,
            lambda i, o, name: RankOne(i, o, seed=self.seed, name=name),
            partial(RankOneKernel, seed=self.seed),
            method=self.name,
        )

    def first_trains(self) -> list[str]:
        return [name for name, _ in self.model.named_buffers() if name.endswith("weight")]

    def first_recipe(self, recipe: Recipe) -> Recipe:
        return recipe.model_copy(update={"rate": cast(BatchE.Options, self.options).first_rate})

    def start(self, task: Task) -> Mapping[str, Tensor]:
        """Random signs of the task's own, except for what is not learned (normalisation statistics)."""
        random = named_generator("batche", self.seed, task.name)
        start = context_tensors(self.model)
        for name, parameter in self.model.named_parameters():
            signs = random.integers(0, 2, parameter.shape).astype(np.float32) * 2 - 1
            start[name] = torch.from_numpy(signs)
        return start

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=0.01, image_rate=0.01)

    def counts(self, tasks: int) -> Counts:
        own = learned_numbers(self.model)
        shared = sum(self.model.get_buffer(name).numel() for name in self.first_trains())
        note = "s and t as float32, and the weights the first task trained spread over the tasks"
        note += statistics_note(self.model)
        return Counts(
            own, own + shared / tasks, float_bytes(kept_numbers(self.model)) + float_bytes(shared) // tasks, note
        )
