"""STL: a separate network for every task, all of whose weights are learned (the paper prints it as "MTL")."""

from __future__ import annotations

from torch import nn

from crwn.layers import learned_parameters
from crwn.methods.dense import DenseOptions, dense_network
from crwn.methods.independent import Independent, float_bytes, statistics_note, stored_values
from crwn.methods.method import Counts
from crwn.methods.published import TunedOptions, published_recipe, tuned
from crwn.training.recipe import Recipe


class STL(Independent):
    """`y = W_k x` in every layer: every task k learns its own W_k, all from the same initial weights."""

    name = "stl"
    sizes = ("256",)

    class Options(DenseOptions, TunedOptions):
        pass

    def network(self) -> nn.Module:
        return dense_network(self.scenario, self.size, seed=self.seed, method=self.name, options=self.options)

    def recipe(self, **overrides: object) -> Recipe:
        best = tuned(self.name, self.options, self.scenario)
        return published_recipe(self.scenario, best | overrides, rate=1e-3, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1  # every task multiplies by other weights, so a stack saves no multiplication

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        note = "a task keeps all its weights as float32" + statistics_note(self.model)
        return Counts(own, own, float_bytes(stored_values(self.model)), note)
