"""Modulated convolutions, and batch norm whose statistics belong to the task."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers import weights as frozen_weights
from crwn.layers.modulated import Mergeable, Modulated
from crwn.layers.row_norm import batch_norm_by_rows, by_rows_pays

Size = int | tuple[int, int]


def _pair(value: Size) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


class ModulatedConv2d(Modulated, Mergeable):
    """`y_n = (alpha * R_n ⊙ v) conv x`: `v` has the kernel's shape without the output channel.

    The kernel is modulated, not the input: an input value is multiplied by a different entry of `v` at every position
    of the kernel, so the superposition form would need the unfolded input, several times slower (docs/decisions.md).

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups: as for `nn.Conv2d`.
        seed, name: make the frozen weights `R ~ N(0, 2 / fan_in)` and the `v` every task starts from.
        modulation, start, start_scale: as for `Modulated`.

    Raises:
        ConfigError: the channels cannot be divided into the groups.
        DataError: the input does not have `in_channels` channels.

    >>> layer = ModulatedConv2d(10, 20, 3, seed=0)
    >>> layer.v.shape, layer(torch.zeros(1, 10, 8, 8)).shape
    (torch.Size([10, 3, 3]), torch.Size([1, 20, 6, 6]))
    """

    weight: Tensor
    exact_alpha = False  # whether the batch norm behind it applies alpha while training, see `use_exact_alpha`

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        *,
        seed: int,
        name: str = "",
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        if min(in_channels, out_channels, groups) < 1 or in_channels % groups or out_channels % groups:
            raise ConfigError(f"{in_channels} and {out_channels} channels cannot be divided into {groups} groups")
        shape = (in_channels // groups, *_pair(kernel_size))
        fan_in = math.prod(shape)
        super().__init__(
            shape, fan_in, seed=seed, name=name, modulation=modulation, start=start, start_scale=start_scale
        )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        weight, self.fingerprint = frozen_weights.gaussian(
            (out_channels, *shape), seed=seed, name=f"gaussian:{name}", std=math.sqrt(2 / fan_in)
        )
        self.register_buffer("weight", weight, persistent=False)

    @property
    def frozen_parameters(self) -> int:
        return self.weight.numel()

    def forward(self, x: Tensor) -> Tensor:
        return self._convolve(x, self.gain)

    def without_alpha(self, x: Tensor) -> Tensor:
        """The outputs divided by alpha, for a norm that applies it."""
        return self._convolve(x, self.v)

    def _convolve(self, x: Tensor, gain: Tensor) -> Tensor:
        if x.shape[-3] != self.in_channels:
            raise DataError(f"images have {x.shape[-3]} channels, this layer takes {self.in_channels}")
        kernel = self.weight * gain
        return F.conv2d(x, kernel, None, self.stride, self.padding, self.dilation, self.groups)

    @torch.no_grad()
    def to_plain(self) -> nn.Conv2d:
        plain = nn.Conv2d(
            self.in_channels,
            self.out_channels,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            bias=False,
            device=self.weight.device,
            dtype=self.weight.dtype,
        )
        plain.weight.copy_(self.weight * self.gain)
        return plain

    def extra_repr(self) -> str:
        size = "x".join(str(side) for side in self.weight.shape[2:])
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.in_channels} -> {self.out_channels}, {size}, stride {self.stride}{groups}"


class TaskBatchNorm2d(Mergeable):
    """Batch norm whose running statistics are part of a task's context; without gain and bias unless `affine`.

    Unlike `nn.BatchNorm2d` it counts no batches, so that all its state belongs to the task.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, *, momentum: float = 0.1, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            raise ConfigError(f"the momentum of batch norm must be over 0 and at most 1, got {momentum}")
        self.momentum = momentum
        self.eps = eps
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.weight is None and by_rows_pays(x):
            return batch_norm_by_rows(x, self.running_mean, self.running_var, self.momentum, self.eps)
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )

    def with_alpha(self, x: Tensor, alpha: Tensor) -> Tensor:
        """Of `alpha * x`, while training, with an exact gradient of alpha."""
        return batch_norm_by_rows(x, self.running_mean, self.running_var, self.momentum, self.eps, alpha)

    def to_plain(self) -> nn.BatchNorm2d:
        plain = nn.BatchNorm2d(
            len(self.running_mean),
            eps=self.eps,
            momentum=self.momentum,
            affine=self.weight is not None,
            device=self.running_mean.device,
            dtype=self.running_mean.dtype,
        )
        plain.load_state_dict(self.state_dict(), strict=False)
        return plain

    def extra_repr(self) -> str:
        return f"{len(self.running_mean)} channels, momentum {self.momentum}"


def convolve_and_normalize(conv: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
    """`norm(conv(x))`; while a modulated convolution with `exact_alpha` trains, with an exact gradient of its alpha."""
    if (
        isinstance(conv, ModulatedConv2d)
        and conv.exact_alpha
        and isinstance(norm, TaskBatchNorm2d)
        and norm.training
        and norm.weight is None
        and conv.alpha.requires_grad
    ):
        return norm.with_alpha(conv.without_alpha(x), conv.alpha)
    out: Tensor = norm(conv(x))
    return out


def use_exact_alpha(network: nn.Module) -> bool:
    """Compute gradients of alpha before batch norm without rounding, in a network that nothing else uses.

    Batch norm divides alpha out, so its gradient is a small rest of terms that cancel. In bfloat16 only rounding is
    left of it, in float32 as much rounding as gradient, and an optimizer that divides by its size carries alpha at
    random through zero. Returns whether the network has such layers: converted ones keep alpha in the kernel.
    """
    layers = [module for module in network.modules() if isinstance(module, ModulatedConv2d)]
    for module in layers:
        module.exact_alpha = True
    return bool(layers)


def channels_last(x: Tensor) -> Tensor:
    """The same images, channels last in memory: convolutions of few channels run about twice as fast."""
    # Not `memory_format=`: vmap does not support it.
    return x.movedim(-3, -1).contiguous().movedim(-1, -3)
