"""NeuroModNet for images on a frozen whitened stem: fewer steps to the same accuracy, and cheaper ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers import ModulatedLinear
from crwn.layers.conv import ModulatedConv2d, TaskBatchNorm2d, channels_last, convolve_and_normalize
from crwn.models.image_encoder import ROOT_FLOOR
from crwn.models.network import Network
from crwn.models.resnet import Block, MakeConv, MakeNorm
from crwn.models.whitened_stem import WhitenedStem


class WhitenedResNet(Network):
    """Frozen whitened filters (`WhitenedStem`), residual blocks on their maps, and a shortcut past these to the head.

    The head takes the maps averaged over the cells of a grid (`Shortcut`), and what the blocks make of them, averaged
    over the image (`Branch`). Convolutions and head have frozen weights that the context modulates. Frozen channels
    cost a task nothing, only inputs of a layer have gains: the last block is wide, where a channel costs one parameter,
    of the head. Batch-norm statistics are part of the context.

    Args:
        classes: outputs; tasks with fewer classes use the first ones.
        seed: determines filters, frozen weights and the context every task starts from.
        input_shape: channels, height and width of the images.
        width: multiplies all numbers of channels.
        filters: filters of the stem, two maps each.
        sides: of the filters, in pixels.
        grid: the shortcut has `grid x grid` cells; 0 for no shortcut.
        channels: of the blocks.
        blocks: number of residual blocks, the last with stride 2; 0 for the shortcut alone.
        last: channels of the last block.
        head_scale: factor of what the head takes: a larger one for larger steps of its outputs.
        mirror: predictions use the average of what the head takes for an image and for its mirror image.
        momentum: the weight of a new batch in the running statistics.
        modulation, start, start_scale: as for `NeuroModNet`.

    Raises:
        ConfigError: a setting is impossible.

    >>> model = WhitenedResNet(classes=5, seed=0)
    >>> sum(parameter.numel() for parameter in model.parameters())
    4677
    """

    kind = "whitened-resnet"

    def __init__(
        self,
        classes: int = 5,
        *,
        seed: int,
        input_shape: Sequence[int] = (3, 32, 32),
        width: int = 1,
        filters: int = 160,
        sides: Sequence[int] = (4, 8),
        grid: int = 3,
        channels: int = 64,
        blocks: int = 1,
        last: int = 256,
        head_scale: float = 0.2,
        mirror: bool = True,
        momentum: float = 0.1,
        modulation: str = "both",
        start: str = "ones",
        start_scale: float = 1.0,
    ) -> None:
        super().__init__()
        least = {"classes": 1, "width": 1, "filters": 1, "grid": 0, "channels": 1, "blocks": 0, "last": 1}
        given = (classes, width, filters, grid, channels, blocks, last)
        counts = {name: index(count) for name, count in zip(least, given, strict=True)}
        for name, count in counts.items():
            if count < least[name]:
                raise ConfigError(f"{name} must be at least {least[name]}, got {count}")
        if not (grid or blocks):
            raise ConfigError("grid 0 and blocks 0 leave nothing for the head: give at least one of them")
        if not 0 < head_scale < math.inf:
            raise ConfigError(f"head_scale must be over 0 and finite, got {head_scale}")
        context: dict[str, Any] = {"modulation": modulation, "start": start, "start_scale": float(start_scale)}

        def conv(in_channels: int, out_channels: int, kernel_size: int, **settings: Any) -> nn.Module:
            return ModulatedConv2d(in_channels, out_channels, kernel_size, seed=seed, **settings, **context)

        def norm(channels: int) -> nn.Module:
            return TaskBatchNorm2d(channels, momentum=momentum)

        self.stem = WhitenedStem(input_shape, filters=filters * width, sides=sides, seed=seed)
        self.input_shape = self.stem.input_shape
        self.classes, self.head_scale, self.mirror = counts["classes"], float(head_scale), bool(mirror)
        self.config = {
            "seed": index(seed),
            "input_shape": list(self.input_shape),
            **counts,
            "sides": [index(side) for side in sides],
            "head_scale": self.head_scale,
            "mirror": self.mirror,
            "momentum": float(momentum),
            **context,
        }
        maps = self.stem.maps
        self.shortcut = Shortcut(maps, grid, norm=norm) if grid else None
        self.branch = Branch(maps, channels * width, last * width, blocks, conv=conv, norm=norm) if blocks else None
        features = maps * grid**2 + (last * width if blocks else 0)
        self.head = ModulatedLinear(features, classes, seed=seed, name="head", **context)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.input_shape:
            expected = ", ".join(map(str, self.input_shape))
            raise DataError(f"inputs have shape {tuple(x.shape)}, this network takes images [rows, {expected}]")
        features = self.features(x)
        if self.mirror and not self.training:
            features = (features + self.features(x.flip(-1))) / 2
        out: Tensor = self.head(self.head_scale * features)
        return out

    def features(self, x: Tensor) -> Tensor:
        """What the head takes, `[rows, features]`, before it is scaled."""
        maps = self.stem(x)
        return torch.cat([part(maps) for part in (self.shortcut, self.branch) if part is not None], dim=1)


class Shortcut(nn.Module):
    """The roots of maps averaged over `grid x grid` cells, normalized: all cells of a map alike."""

    def __init__(self, maps: int, grid: int, *, norm: MakeNorm) -> None:
        super().__init__()
        self.grid = grid
        self.norm = norm(maps)

    def forward(self, maps: Tensor) -> Tensor:
        averages: Tensor = self.norm(_root(F.adaptive_avg_pool2d(maps, self.grid)))
        return averages.flatten(1)


class Branch(nn.Module):
    """A 1x1 convolution and residual blocks on the roots of maps averaged over 2 x 2 places; normalized averages."""

    def __init__(self, maps: int, channels: int, last: int, blocks: int, *, conv: MakeConv, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm(maps)
        self.mix = conv(maps, channels, 1, stride=1, padding=0, name="mix")
        self.mix_norm = norm(channels)
        names = [f"blocks.{at}" for at in range(blocks)]
        made = [Block(channels, channels, 1, conv=conv, norm=norm, name=name) for name in names[:-1]]
        made.append(Block(channels, last, 2, conv=conv, norm=norm, name=names[-1], inner=channels))
        self.blocks = nn.Sequential(*made)
        self.last_norm = norm(last)

    def forward(self, maps: Tensor) -> Tensor:
        small = self.norm(_root(F.avg_pool2d(maps, 2)))
        out = self.blocks(F.relu(convolve_and_normalize(self.mix, self.mix_norm, channels_last(small))))
        averages: Tensor = self.last_norm(out.mean(dim=(2, 3), keepdim=True))
        return averages.flatten(1)


def _root(averages: Tensor) -> Tensor:
    return (averages + ROOT_FLOOR).sqrt()
