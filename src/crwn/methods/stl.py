"""STL: a network of its own for every task, all weights learned (the paper prints it as "MTL")."""

from __future__ import annotations

from torch import nn

from crwn.layers import learned_numbers
from crwn.methods.image_networks import dense_baseline
from crwn.methods.independent import Independent, float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.published import published_recipe
from crwn.recipe import Recipe


class STL(Independent):
    """`y = W_k x` in every layer: a task learns all weights, starting from the same ones."""

    name = "stl"
    sizes = ("256",)

    def network(self) -> nn.Module:
        return dense_baseline(self.scenario, self.size, seed=self.seed, method=self.name)

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-3, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1  # every task multiplies by its own weights: nothing folds together, and a stack is no faster

    def counts(self, tasks: int) -> Counts:
        own = learned_numbers(self.model)
        kept = kept_numbers(self.model)
        return Counts(
            own, own, float_bytes(kept), "a task keeps all its weights as float32" + statistics_note(self.model)
        )
