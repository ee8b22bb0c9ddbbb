"""SupSup: frozen random signs as weights, and for every task a learned mask that selects some of them."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import learned_parameters, product
from crwn.methods.independent import Independent, float_bytes, statistics_note, stored_values
from crwn.methods.initial_weights import fan_in, random_signs, torch_uniform
from crwn.methods.method import Counts
from crwn.methods.networks import KernelConv2d, baseline_network
from crwn.methods.published import TunedOptions, published_recipe, tuned
from crwn.methods.sizes import has_images
from crwn.scenarios import Task
from crwn.training.recipe import Recipe


class SupSupLinear(nn.Module):
    """`y = (W ⊙ [scores >= 0]) x`.

    Frozen: W, random signs times `sqrt(2 / in)`.
    Learned: a score for every weight, starting uniform in `(-1 / sqrt(in), 1 / sqrt(in))`.
    """

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        shape = (out_features, in_features)
        self.register_buffer("weight", _frozen_weight(shape, seed=seed, name=name), persistent=False)
        self.scores = nn.Parameter(_first_scores(shape, seed=seed, name=name))

    def forward(self, x: Tensor) -> Tensor:
        kept = self.mask(self.scores.detach())
        mask: Tensor = _StraightThrough.apply(self.scores, kept)  # type: ignore[no-untyped-call]
        return product(x, self.weight * mask)

    def mask(self, scores: Tensor) -> Tensor:
        """True for the weights that these scores keep."""
        return scores >= 0

    def scores_of(self, mask: Tensor) -> Tensor:
        """Scores whose mask is this one (1 or 0 for every weight): 0 keeps a weight, -1 drops it."""
        return mask - 1


class SupSupConv2d(KernelConv2d):
    """`y = (W ⊙ mask) conv x`, where the mask keeps the `density` of weights with the largest |scores|.

    Frozen: W, random signs times `sqrt(2 / fan_in)`.
    Learned: a score for every weight, starting uniform in `(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`.
    """

    weight: Tensor

    def __init__(
        self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0, density: float = 0.5
    ) -> None:
        super().__init__(stride=stride, padding=padding)
        self.register_buffer("weight", _frozen_weight(shape, seed=seed, name=name), persistent=False)
        self.scores = nn.Parameter(_first_scores(shape, seed=seed, name=name))
        self.kept = max(1, round(density * math.prod(shape)))

    def kernel(self) -> Tensor:
        # Absolute values are compared, so the gradient of a negative score changes its sign.
        kept = self.mask(self.scores.detach())
        mask: Tensor = _StraightThrough.apply(self.scores.abs(), kept)  # type: ignore[no-untyped-call]
        return self.weight * mask

    def mask(self, scores: Tensor) -> Tensor:
        """True for the weights that these scores keep."""
        sizes = scores.abs()
        return sizes >= sizes.flatten().kthvalue(sizes.numel() - self.kept + 1).values

    def scores_of(self, mask: Tensor) -> Tensor:
        """Scores whose mask is this one (1 or 0 for every weight)."""
        return mask


class SupSup(Independent):
    """`y = (W ⊙ mask_k) x` in every layer: a task k learns the scores of its masks and stores one bit of each.

    On flat rows a mask keeps the weights whose score is at least 0, on images those with the largest |scores| of
    their layer.
    """

    name = "supsup"
    sizes = ("256",)

    class Options(TunedOptions):
        density: float = Field(0.5, gt=0, le=1, description="on images: share of a layer's weights that a mask keeps")
        density_scale: int | None = Field(
            None, ge=1, le=32, description="on images: keep min(0.5, s (in + out) / (in out kh kw)) of a layer instead"
        )

    @property
    def settings(self) -> Options:
        return cast(SupSup.Options, self.options)

    def network(self) -> nn.Module:
        options = self.settings
        if not has_images(self.scenario) and (options.density != 0.5 or options.density_scale is not None):
            raise ConfigError("density and density_scale are for images: on flat rows a mask keeps scores from 0 on")

        def conv2d(shape: tuple[int, ...], **settings: Any) -> nn.Module:
            scale = options.density_scale
            density = options.density if scale is None else published_density(shape, scale)
            return SupSupConv2d(shape, density=density, **settings)

        return baseline_network(self.scenario, self.size, SupSupLinear, conv2d, seed=self.seed, method=self.name)

    def recipe(self, **overrides: object) -> Recipe:
        best = tuned(self.name, self.options, self.scenario)
        return published_recipe(self.scenario, best | overrides, rate=1e-4, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1  # every task multiplies by other masked weights, so a stack saves no multiplication

    def keep(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The masks, eight weights to a byte; batch-norm statistics unchanged."""
        kept = dict(tensors)
        for name, layer in self._masked():
            kept[name] = torch.from_numpy(np.packbits(layer.mask(tensors[name]).numpy()))
        return kept

    def context(self, task: Task) -> dict[str, Tensor]:
        """Scores whose masks are those of the task; batch-norm statistics unchanged."""
        context = dict(super().context(task))
        for name, layer in self._masked():
            bits = np.unpackbits(context[name].numpy(), count=layer.scores.numel())
            context[name] = layer.scores_of(torch.from_numpy(bits.astype(np.float32)).reshape(layer.scores.shape))
        return context

    def counts(self, tasks: int) -> Counts:
        own = learned_parameters(self.model)
        masks = sum(-(-layer.scores.numel() // 8) for _, layer in self._masked())
        kept = masks + float_bytes(stored_values(self.model) - own)
        note = "a task learns a score for every weight and keeps one bit of it" + statistics_note(self.model)
        return Counts(own, own, kept, note)

    def _masked(self) -> list[tuple[str, SupSupLinear | SupSupConv2d]]:
        """The masked layers, each with the name of its scores."""
        modules = self.model.named_modules()
        return [(f"{name}.scores", layer) for name, layer in modules if isinstance(layer, SupSupLinear | SupSupConv2d)]


class _StraightThrough(torch.autograd.Function):
    """The mask as 1 and 0; its gradient is passed unchanged to the scores it was computed from."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, mask: Tensor) -> Tensor:
        return mask.to(scores.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def published_density(shape: tuple[int, ...], scale: int) -> float:
    """`min(0.5, scale (in + out) / (in out height width))`: at scale 1 as many weights as BatchE learns parameters."""
    return min(0.5, scale * (shape[0] + shape[1]) / math.prod(shape))


def _frozen_weight(shape: tuple[int, ...], *, seed: int, name: str) -> Tensor:
    return random_signs(shape, seed=seed, name=f"signs:{name}") * math.sqrt(2 / fan_in(shape))


def _first_scores(shape: tuple[int, ...], *, seed: int, name: str) -> Tensor:
    return torch_uniform(shape, seed=seed, name=f"scores:{name}")
