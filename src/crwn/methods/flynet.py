"""FlyNet: a fixed sparse random encoder, and a decoder modulated by the task's context (the paper's method)."""

from __future__ import annotations

from typing import Literal, cast

from pydantic import Field
from torch import nn

from crwn.layers import learned_numbers
from crwn.methods import method
from crwn.methods.contextual import Contextual
from crwn.methods.independent import float_bytes
from crwn.methods.method import Counts
from crwn.methods.published import published_recipe
from crwn.methods.sizes import flat_features, multiple
from crwn.models import FlyNet
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe
from crwn.training.stacking import stack_size


class FlyNetMethod(Contextual):
    """`h = relu(E x - gamma * mean(E x))`, `y = alpha * (R ⊙ v) h`: a task learns v and alpha of the decoder."""

    name = "flynet"
    sizes = ("10d", "20d", "30d", "40d")

    class Options(method.Options):
        modulation: Literal["both", "local", "global"] = "both"
        inputs_per_node: int = Field(7, ge=1)
        gamma: float = 1.0
        start: Literal["uniform", "ones"] = "uniform"
        start_scale: float = Field(1.0, gt=0)
        constant: bool = Field(False, description="append a 1 to every row, for tables; the paper has none")

    @property
    def settings(self) -> Options:
        return cast(FlyNetMethod.Options, self.options)

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "10d"

    @property
    def hidden(self) -> int:
        return multiple(self.size, method=self.name) * flat_features(self.scenario, method=self.name)

    def network(self) -> nn.Module:
        options = self.settings
        return FlyNet(
            flat_features(self.scenario, method=self.name),
            self.hidden,
            self.scenario.num_classes,
            seed=self.seed,
            inputs_per_node=options.inputs_per_node,
            gamma=options.gamma,
            modulation=options.modulation,
            start=options.start,
            start_scale=options.start_scale,
            constant=options.constant,
        )

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=0.01, image_rate=0.1)

    @property
    def stack_size(self) -> int:
        return stack_size(self.hidden)

    def counts(self, tasks: int) -> Counts:
        own = learned_numbers(self.model)
        note = "a context is its float32 numbers; encoder and frozen weights come from the seed and take nothing"
        return Counts(own, own, float_bytes(own), note)
