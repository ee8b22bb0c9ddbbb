"""A frozen first layer for images: whitened filters from a seed at every second place, and a two-sided threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import index

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers.weights.dead_leaves import dead_leaves
from crwn.layers.weights.filters import CONTRAST, FilterBank
from crwn.models.image_encoder import LARGE_SIDE

STRIDE = 2
PLACES = 3  # at least, along each side: convolutions that follow average 2 x 2 of them


class WhitenedStem(nn.Module):
    """`relu(y - t)` and `relu(-y - t)` for every filter, at every second place.

    `y` is the response of a filter to the patch at one place, as in `ImageEncoder`; places stay where they are, so that
    convolutions can follow. Nothing in it is learned.

    Args:
        input_shape: `(channels, height, width)`; larger images are averaged down to 48 pixels or less.
        filters: number of filters, divided evenly among the sides.
        sides: sides of the filters in pixels.
        threshold: t, in deviations of a response.
        seed: draws the pictures that filters are taken from, and chooses the patches.

    Raises:
        ConfigError: a setting is impossible.

    >>> WhitenedStem((3, 32, 32), filters=24, seed=0)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 48, 15, 15])
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        *,
        filters: int,
        sides: Sequence[int] = (4, 8),
        threshold: float = 0.5,
        seed: int,
    ) -> None:
        super().__init__()
        if not sides or min(sides) < 2 or filters < len(sides):
            raise ConfigError(f"a stem needs sides of at least 2 and a filter for each, got {filters} and {sides}")
        if not isinstance(input_shape, Sequence) or len(input_shape) != 3:
            raise ConfigError(f"images have the shape (channels, height, width), got {input_shape}")
        channels, height, width = (index(length) for length in input_shape)
        self.input_shape = (channels, height, width)
        self.shrink = max(1, math.ceil(max(height, width) / LARGE_SIDE))
        needed = min(sides) + (PLACES - 1) * STRIDE
        if channels < 1 or min(height, width) // self.shrink < needed:
            reduced = f" (averaged down by {self.shrink})" if self.shrink > 1 else ""
            raise ConfigError(
                f"images of {channels} x {height} x {width}{reduced} are too small for filters of {min(sides)}: "
                f"{needed} x {needed} pixels are needed; enlarge them, or give smaller filters"
            )
        self.threshold, self.smallest = threshold, min(sides)
        self.maps = 2 * filters
        pictures, self.fingerprint = dead_leaves(channels, seed=seed, name="encoder")
        shares = [filters // len(sides) + (at < filters % len(sides)) for at in range(len(sides))]
        self.banks = nn.ModuleList(
            FilterBank(side, count, channels, pictures=pictures, seed=seed, name="encoder")
            for side, count in zip(sides, shares, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[images, 2 * filters, down, across]` of standardized images."""
        if torch.is_autocast_enabled(x.device.type):  # rounded filters would no longer add up to 0
            with torch.autocast(x.device.type, enabled=False):
                return self._maps(x)
        return self._maps(x)

    def _maps(self, x: Tensor) -> Tensor:
        x = F.avg_pool2d(x, self.shrink) if self.shrink > 1 else x
        y = torch.cat(list(self._responses(x)), dim=-3)
        return torch.cat([F.relu(y - self.threshold), F.relu(-y - self.threshold)], dim=-3)

    def _responses(self, x: Tensor) -> Iterator[Tensor]:
        """Responses of every bank, all at as many places: images get a margin for filters that are larger."""
        for bank in self.banks:
            assert isinstance(bank, FilterBank)
            before, after = (bank.side - self.smallest) // 2, (bank.side - self.smallest + 1) // 2
            wide = F.pad(x, (before, after, before, after))
            kernel = bank.weight.view(bank.side, bank.side, bank.channels, bank.count).permute(3, 2, 0, 1)
            mean = F.avg_pool2d(wide.mean(dim=-3, keepdim=True), bank.side, STRIDE)
            square = F.avg_pool2d(wide.square().mean(dim=-3, keepdim=True), bank.side, STRIDE)
            variance = (square - mean.square()).clamp_min(0.0)
            yield F.conv2d(wide, kernel, stride=STRIDE) / (variance + CONTRAST).sqrt()
