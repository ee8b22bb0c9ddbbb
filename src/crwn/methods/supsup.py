"""SupSup with known tasks: a fixed random network, and for every task a learned mask over its weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from crwn.layers import context_tensors, learned_numbers
from crwn.methods.independent import Independent
from crwn.methods.method import Counts
from crwn.methods.networks import Masked, fully_connected
from crwn.methods.published import has_images, published_recipe
from crwn.recipe import Recipe
from crwn.scenarios import Scenario, Task


class SupSup(Independent):
    """`y = (W ⊙ [scores_k >= 0]) x` in every layer: a task learns the scores and keeps one bit of each."""

    name = "supsup"
    sizes = ("256",)

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "1d" if has_images(scenario) else "256"

    def network(self) -> nn.Module:
        return fully_connected(
            self.scenario, self.size, lambda i, o, name: Masked(i, o, seed=self.seed, name=name), method=self.name
        )

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-4, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1

    def keep(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The masks, eight weights to a byte."""
        return {name: torch.from_numpy(np.packbits((scores >= 0).numpy())) for name, scores in tensors.items()}

    def context(self, task: Task) -> dict[str, Tensor]:
        """Scores with the mask's signs: 0 keeps a weight, -1 drops it."""
        masks = super().context(task)
        context = {}
        for name, scores in context_tensors(self.model).items():
            bits = np.unpackbits(masks[name].numpy(), count=scores.numel())
            context[name] = torch.from_numpy(bits.astype(np.float32) - 1).reshape(scores.shape)
        return context

    def counts(self, tasks: int) -> Counts:
        own = learned_numbers(self.model)
        kept = sum(-(-scores.numel() // 8) for scores in context_tensors(self.model).values())
        return Counts(own, own, kept, "a task learns a score for every weight and keeps one bit of it")
