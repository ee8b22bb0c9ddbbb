"""SupSup with known tasks: a fixed random network, and for every task a learned mask over its weights."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import learned_numbers
from crwn.methods import method
from crwn.methods.image_networks import MaskedKernel, baseline, published_density
from crwn.methods.independent import Independent, float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.networks import Masked
from crwn.methods.published import has_images, published_recipe
from crwn.recipe import Recipe
from crwn.scenarios import Task


class SupSup(Independent):
    """`y = (W ⊙ [scores_k >= 0]) x` in every layer: a task learns the scores and keeps one bit of each.

    On images a mask keeps the weights with the largest |scores| of its layer.
    """

    name = "supsup"
    sizes = ("256",)

    class Options(method.Options):
        density: float = Field(0.5, gt=0, le=1, description="on images: share of a layer's weights that a mask keeps")
        density_scale: int | None = Field(
            None, ge=1, le=32, description="on images: keep min(0.5, s (in + out) / (in out kh kw)) of a layer instead"
        )

    def network(self) -> nn.Module:
        options = cast(SupSup.Options, self.options)
        if not has_images(self.scenario) and (options.density != 0.5 or options.density_scale is not None):
            raise ConfigError("density and density_scale are for images: on flat rows a mask keeps scores from 0 on")
        return baseline(
            self.scenario,
            self.size,
            lambda i, o, name: Masked(i, o, seed=self.seed, name=name),
            self._kernel,
            method=self.name,
        )

    def _kernel(self, shape: tuple[int, ...], *, name: str, stride: int = 1, padding: int = 0) -> nn.Module:
        options = cast(SupSup.Options, self.options)
        density = options.density
        if options.density_scale is not None:
            density = published_density(shape, options.density_scale)
        return MaskedKernel(shape, seed=self.seed, name=name, density=density, stride=stride, padding=padding)

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-4, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1  # every task multiplies by its own masked weights: nothing folds together, and a stack is no faster

    def keep(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The masks, eight weights to a byte; statistics as they are."""
        kept = dict(tensors)
        for name, layer in self._masked():
            kept[name] = torch.from_numpy(np.packbits(layer.mask(tensors[name]).numpy()))
        return kept

    def context(self, task: Task) -> dict[str, Tensor]:
        """Scores that keep what the task's masks keep."""
        context = dict(super().context(task))
        for name, layer in self._masked():
            bits = np.unpackbits(context[name].numpy(), count=layer.scores.numel())
            context[name] = layer.scores_of(torch.from_numpy(bits.astype(np.float32)).reshape(layer.scores.shape))
        return context

    def _masked(self) -> list[tuple[str, Masked | MaskedKernel]]:
        """The name of every layer's scores, and the layer."""
        modules = self.model.named_modules()
        return [(f"{name}.scores", layer) for name, layer in modules if isinstance(layer, Masked | MaskedKernel)]

    def counts(self, tasks: int) -> Counts:
        own = learned_numbers(self.model)
        masks = sum(-(-layer.scores.numel() // 8) for _, layer in self._masked())
        kept = masks + float_bytes(kept_numbers(self.model) - own)
        note = "a task learns a score for every weight and keeps one bit of it" + statistics_note(self.model)
        return Counts(own, own, kept, note)
