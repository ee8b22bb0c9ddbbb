"""ResNet-18, reduced (for 32 x 32 images) and standard, with any kind of convolution; and NeuroModNet's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers import ModulatedLinear
from crwn.layers.conv import ModulatedConv2d, TaskBatchNorm2d, channels_last, convolve_and_normalize
from crwn.models.network import Network

STEMS = ("small", "standard")


class MakeConv(Protocol):
    """Makes a convolution without bias."""

    def __call__(
        self, in_channels: int, out_channels: int, kernel_size: int, *, stride: int, padding: int, name: str
    ) -> nn.Module: ...


class MakeLinear(Protocol):
    """Makes the head, without bias."""

    def __call__(self, in_features: int, out_features: int, *, name: str) -> nn.Module: ...


class MakeNorm(Protocol):
    """Makes a normalization layer for images."""

    def __call__(self, channels: int) -> nn.Module: ...


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut, which is a 1x1 convolution where the shape changes.

    Between them are `inner` channels, by default as many as there are outputs.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int,
        *,
        conv: MakeConv,
        norm: MakeNorm,
        name: str,
        inner: int | None = None,
    ) -> None:
        super().__init__()
        inner = inner or out_channels
        self.conv1 = conv(in_channels, inner, 3, stride=stride, padding=1, name=f"{name}.conv1")
        self.norm1 = norm(inner)
        self.conv2 = conv(inner, out_channels, 3, stride=1, padding=1, name=f"{name}.conv2")
        self.norm2 = norm(out_channels)
        self.stride = stride
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or in_channels != out_channels:
            shortcut = conv(in_channels, out_channels, 1, stride=1, padding=0, name=f"{name}.shortcut")
            self.shortcut = nn.Sequential(shortcut, norm(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(convolve_and_normalize(self.conv1, self.norm1, x))
        # Equal to a 1x1 convolution with this stride, whose backward pass crashes in oneDNN with channels last.
        kept = x if self.stride == 1 else channels_last(x[..., :: self.stride, :: self.stride])
        if self.shortcut is not None:
            kept = convolve_and_normalize(self.shortcut[0], self.shortcut[1], kept)
        return F.relu(convolve_and_normalize(self.conv2, self.norm2, out) + kept)


class ResNet18(nn.Module):
    """A stem, four stages of two blocks with `width`, 2, 4 and 8 times `width` channels, mean pooling and a head.

    The caller chooses convolutions, head and normalization, so that every method trains the same architecture.

    Args:
        conv, linear, norm: make the layers.
        width: channels of the first stage: 10 for the paper's reduced network, 64 for the standard one.
        classes: outputs.
        stem: "small" (3x3) or "standard" (7x7 with stride 2, then max-pooling).
        channels: channels of the images.
    """

    def __init__(
        self,
        *,
        conv: MakeConv,
        linear: MakeLinear,
        norm: MakeNorm,
        width: int = 10,
        classes: int = 5,
        stem: str = "small",
        channels: int = 3,
    ) -> None:
        super().__init__()
        if stem not in STEMS:
            raise ConfigError(f'unknown stem "{stem}": choose one of {", ".join(STEMS)}')
        if min(width, classes, channels) < 1:
            raise ConfigError(f"width {width}, classes {classes} and channels {channels} must be at least 1")
        self.channels = channels
        self.pooled = stem == "standard"
        kernel, stride = (7, 2) if self.pooled else (3, 1)
        self.stem = conv(channels, width, kernel, stride=stride, padding=kernel // 2, name="stem")
        self.stem_norm = norm(width)
        blocks: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width * 2**stage
            for position in range(2):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(Block(before, after, stride, conv=conv, norm=norm, name=f"blocks.{len(blocks)}"))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = linear(before, classes, name="head")

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise DataError(
                f"inputs have shape {tuple(x.shape)}, this network takes images [rows, {self.channels}, height, width]"
            )
        x = F.relu(convolve_and_normalize(self.stem, self.stem_norm, channels_last(x)))
        if self.pooled:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        out: Tensor = self.head(self.blocks(x).mean(dim=(2, 3)))
        return out


def plain_conv(
    in_channels: int, out_channels: int, kernel_size: int, *, stride: int, padding: int, name: str
) -> nn.Module:
    """An ordinary convolution without bias."""
    return nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=False)


def plain_linear(in_features: int, out_features: int, *, name: str) -> nn.Module:
    """An ordinary linear layer without bias."""
    return nn.Linear(in_features, out_features, bias=False)


def plain_norm(channels: int) -> nn.Module:
    """Batch norm with gain and bias."""
    return TaskBatchNorm2d(channels, affine=True)


def resnet18(
    *,
    conv: MakeConv = plain_conv,
    linear: MakeLinear = plain_linear,
    norm: MakeNorm = plain_norm,
    width: int = 10,
    classes: int = 5,
    stem: str = "small",
    channels: int = 3,
) -> ResNet18:
    """ResNet-18 of the given layers; by default the ordinary trained network.

    >>> sum(parameter.numel() for parameter in resnet18().parameters())
    274570
    """
    return ResNet18(conv=conv, linear=linear, norm=norm, width=width, classes=classes, stem=stem, channels=channels)


class NeuroModResNet(ResNet18, Network):
    """NeuroModNet as ResNet-18: every convolution and the head modulated, batch-norm statistics part of the context.

    Args:
        width: channels of the first stage; the paper's 1d, 2d, 4d and 6d are 10, 20, 40 and 60.
        classes: outputs; tasks with fewer classes use the first ones.
        seed: determines the frozen weights and the context every task starts from.
        stem: "small" for images of about 32 x 32, "standard" (7x7 with stride 2, max-pooling) for larger ones.
        input_shape: channels, height and width of the images.
        momentum: the weight of a new batch in the running statistics.
        modulation, start, start_scale: as for `NeuroModNet`.

    >>> model = NeuroModResNet(width=10, classes=5, seed=0)
    >>> sum(parameter.numel() for parameter in model.parameters())
    4968
    """

    kind = "neuromod-resnet18"

    def __init__(
        self,
        width: int = 10,
        classes: int = 5,
        *,
        seed: int,
        stem: str = "small",
        input_shape: tuple[int, int, int] = (3, 32, 32),
        momentum: float = 0.1,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        if not isinstance(input_shape, Sequence) or len(input_shape) != 3:
            raise ConfigError(f"input_shape must be channels, height and width, got {input_shape}")
        context: dict[str, Any] = {"modulation": modulation, "start": start, "start_scale": start_scale}

        def conv(in_channels: int, out_channels: int, kernel_size: int, **settings: Any) -> nn.Module:
            return ModulatedConv2d(in_channels, out_channels, kernel_size, seed=seed, **settings, **context)

        def linear(in_features: int, out_features: int, *, name: str) -> nn.Module:
            return ModulatedLinear(in_features, out_features, seed=seed, name=name, **context)

        def norm(channels: int) -> nn.Module:
            return TaskBatchNorm2d(channels, momentum=momentum)

        super().__init__(
            conv=conv, linear=linear, norm=norm, width=width, classes=classes, stem=stem, channels=input_shape[0]
        )
        self.config = {
            "width": width,
            "classes": classes,
            "seed": seed,
            "stem": stem,
            "input_shape": list(input_shape),
            "momentum": momentum,
            **context,
        }
        self.input_shape = (input_shape[0], input_shape[1], input_shape[2])
        self.classes = classes
