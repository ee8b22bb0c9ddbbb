"""A custom method: frozen random weights, and biases that every task learns.

Registered as docs/custom-method.md describes, it runs like any other method:

    crwn run rotated-digits biases --tasks 4
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn import methods
from crwn.layers import learned_parameters
from crwn.layers.weights import Gaussian
from crwn.methods import Counts, Independent, published_recipe
from crwn.methods.networks import width
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe


class BiasNet(nn.Module):
    """`y = R2 relu(R1 x + b1) + b2`: parameters belong to the task, buffers are shared and frozen."""

    def __init__(self, features: int, hidden: int, classes: int, *, gain: float, seed: int) -> None:
        super().__init__()
        self.gain = gain
        self.first = Gaussian(features, hidden, seed=seed, name="first")
        self.second = Gaussian(hidden, classes, seed=seed, name="second")
        self.b1 = nn.Parameter(torch.zeros(hidden))
        self.b2 = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(F.relu(self.first(x) + self.gain * self.b1)) + self.b2
        return out


class Biases(Independent):
    """Tasks are independent of each other: `Independent` implements stacking, state and predictions."""

    name = "biases"
    sizes = ("512", "2048")

    class Options(methods.Options):
        gain: float = 1.0  # crwn run ... --set gain=3

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "2048"

    def network(self) -> nn.Module:
        features, classes = self.scenario.input_shape[0], self.scenario.num_classes
        return BiasNet(features, width(self.size, method=self.name), classes, gain=self.options.gain, seed=self.seed)

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=0.01, image_rate=0.01)

    @property
    def stack_size(self) -> int:
        return 8

    def counts(self, tasks: int) -> Counts:
        count = learned_parameters(self.model)
        return Counts(count, count, 4 * count, "biases as float32; frozen weights come from the seed")
