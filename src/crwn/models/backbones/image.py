"""Image backbones: any module that makes features of images, frozen, with the preprocessing it needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError, ModelError
from crwn.models.backbones.freezing import frozen_copy, weights_checksum
from crwn.models.frozen_call import frozen_call
from crwn.models.network import Scaling

AT_ONCE = 16  # images that a thread computes together: their activations stay in its core's cache
SMALLEST = 8


class ImageBackbone(nn.Module):
    """Features of images `[..., channels, height, width]`, from a frozen copy of a module.

    Images are resized to the size that the module takes, and grey ones get three equal channels. They are expected
    standardized with `byte_scaling`, as a learner prepares them: `(byte - mean) / std`.

    Args:
        module: takes images `[n, 3, size, size]` and returns features `[n, features]`, feature maps
            `[n, features, h, w]`, which are averaged, or the output of a model of transformers.
        name: what the backbone is called in model folders and messages; the module's class by default.
        size: height and width of the images that the module gets.
        mean, std: of the images that the module was trained with, for values from 0 to 1: one number, or one for
            each of three channels.
        weights: SHA-256 that identifies the module's weights; computed from them by default.

    Raises:
        ConfigError: a size, mean or deviation is impossible.
        ModelError: the module cannot be copied, or does not return features.

    >>> backbone = ImageBackbone(nn.Conv2d(3, 7, 3), size=8)
    >>> backbone(torch.zeros(2, 1, 20, 30)).shape, list(backbone.parameters())
    (torch.Size([2, 7]), [])
    """

    dims = 3  # of one row

    def __init__(
        self,
        module: nn.Module,
        *,
        name: str | None = None,
        size: int = 96,
        mean: float | Sequence[float] = 0.5,
        std: float | Sequence[float] = 0.5,
        weights: str | None = None,
    ) -> None:
        super().__init__()
        self.name = name or type(module).__name__
        if isinstance(size, bool) or not isinstance(size, int) or size < SMALLEST:
            raise ConfigError(f"images for a backbone have at least {SMALLEST} x {SMALLEST} pixels, got size {size!r}")
        self.size = size
        self.mean, self.std = _channels("mean", mean), _channels("std", std)
        if min(self.std) <= 0:
            raise ConfigError(f"std must be above 0, got {self.std}")
        # Convolutions of small images are nearly twice as fast with channels innermost.
        self.module = frozen_copy(module, memory_format=torch.channels_last)
        self.weights = weights or weights_checksum(dict(module.state_dict()))
        self.features = self._count()
        settings = [self.weights, self.size, self.mean, self.std]
        self.fingerprint = hashlib.sha256(json.dumps(settings).encode()).hexdigest()

    def scaling(self, channels: int, unit: float) -> Scaling:
        """Mean and deviation that images are standardized with, whose values go from 0 to `unit`."""
        parts = [tuple(unit * value for value in values) for values in (self.mean, self.std)]
        if channels != 3 or all(len(set(part)) == 1 for part in parts):
            mean, std = (sum(part) / 3 for part in parts)
            return mean, std
        return parts[0], parts[1]

    def forward(self, x: Tensor) -> Tensor:
        """Features `[..., features]` of standardized images, without gradient."""
        if x.ndim < 3 or x.shape[-3] not in (1, 3):
            raise DataError(f"images have the shape (1 or 3, height, width), got {tuple(x.shape[-3:])}")
        if torch.compiler.is_exporting():
            return self._features(x)
        return frozen_call(self.encode, x, dims=3)

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """The same for `[images, channels, height, width]`, a few images at a time."""
        at_once = AT_ONCE * torch.get_num_threads()
        parts = [self._features(x[at : at + at_once]) for at in range(0, len(x), at_once)]
        return torch.cat(parts) if parts else x.new_empty(0, self.features)

    def resized(self, x: Tensor) -> Tensor:
        """Images as the module takes them, `[n, 3, size, size]`."""
        if x.shape[-3] == 1:
            x = x.expand(-1, 3, -1, -1)
        height, width = x.shape[-2:]
        if (height, width) == (self.size, self.size):
            return x
        smaller = max(height, width) > self.size
        return F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=smaller, align_corners=False)

    def _features(self, x: Tensor) -> Tensor:
        x = self.resized(x).contiguous(memory_format=torch.channels_last)
        out: Tensor = features_of(self.module(x))
        return out

    @torch.no_grad()
    def _count(self) -> int:
        """The number of features, by a call with two blank images."""
        try:
            found = self._features(torch.zeros(2, 3, self.size, self.size))
        except Exception as error:  # the user's module can raise anything
            raise ModelError(
                f"{self.name} cannot take images of 3 x {self.size} x {self.size} "
                f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}): give its size"
            ) from error
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != 2 or not found.is_floating_point():
            what = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ModelError(f"{self.name} returns {what} for 2 images: a backbone returns features [2, features]")
        return int(found.shape[1])

    def extra_repr(self) -> str:
        return f"{self.name}: 3 x {self.size} x {self.size} -> {self.features:,} features, {self.weights[:12]}"


def features_of(found: Any) -> Any:
    """Features `[n, features]` of what a module returned: maps averaged over their pixels.

    An output of transformers has pooled features, or else tokens, which are averaged.
    """
    if not isinstance(found, Tensor) and getattr(found, "last_hidden_state", None) is not None:
        pooled = getattr(found, "pooler_output", None)
        found = found.last_hidden_state if pooled is None else pooled
        if found.ndim == 3:
            return found.mean(dim=1)
    return found.mean(dim=(-2, -1)) if isinstance(found, Tensor) and found.ndim == 4 else found


def _channels(what: str, given: float | Sequence[float]) -> tuple[float, float, float]:
    values = [float(given)] * 3 if isinstance(given, int | float) else [float(value) for value in given]
    if len(values) != 3:
        raise ConfigError(f"{what} has {len(values)} values: give one, or one for each of three channels")
    return values[0], values[1], values[2]
