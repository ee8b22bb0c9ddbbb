"""Batch norm of bfloat16 images with few channels, computed on whole rows of pixels.

Channels are innermost in memory. Where they do not fill a vector of the processor, every vector of the usual batch
norm is partly empty, and bfloat16 is no faster than float32. Here a row of pixels with all its channels is summed and
scaled at once, with the statistics of the channels repeated for every pixel.

A factor alpha of the kernel before the norm can be applied here too. Batch norm divides it out again, so that its
gradient is what eps leaves of it, a millionth of the terms that cancel: rounding is of its size in float32, and far
larger in bfloat16. Here nothing cancels: the gradient is the product of eps with a sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

VECTOR = 16  # float32 numbers in a vector of AVX-512, which every processor with AVX512_BF16 has


def by_rows_pays(x: Tensor) -> bool:
    """Whether batch norm of these images while training is faster by rows of pixels."""
    return x.dtype == torch.bfloat16 and x.device.type == "cpu" and x.shape[-3] % VECTOR != 0


def batch_norm_by_rows(
    x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float, alpha: Tensor | None = None
) -> Tensor:
    """What `F.batch_norm` of `alpha * x` returns while training, without gain and bias; sums are float32.

    Args:
        x: images `[batch, channels, height, width]`.
        running_mean, running_var: `[channels]`, updated in place with the statistics of `alpha * x`.
        alpha: one number; 1 where it is left out.
    """
    with torch.autocast(x.device.type, enabled=False):
        factor = torch.ones((), device=x.device) if alpha is None else alpha
        out, mean, var = _ByRows.apply(x, _repeated(x), factor, eps)  # type: ignore[no-untyped-call]
        count = _count(x)
        kept = factor.detach()
        running_mean.mul_(1 - momentum).add_(kept * mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(kept.square() * var, alpha=momentum * count / max(count - 1, 1))
    return out  # type: ignore[no-any-return]


def _repeated(x: Tensor) -> Tensor:
    """`[channels, width * channels]`: a product with it repeats statistics for every pixel of a row."""
    return torch.eye(x.shape[1], device=x.device).repeat(1, x.shape[3])


class _ByRows(torch.autograd.Function):
    """`alpha * (x - mean) / sqrt(alpha**2 * var + eps)` with the mean and variance of every channel."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, repeated: Tensor, alpha: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        rows = _rows(x)
        sums = torch.stack([rows.sum(0), rows.square().sum(0)]) @ repeated.mT  # [2, channels]
        mean, square = sums / _count(x)
        var = (square - mean.square()).clamp_min(0.0)
        scale, shift = alpha * _over_rows(mean, _root(var, alpha, eps), repeated)
        return _images((rows * scale + shift).to(x.dtype), x), mean, var

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        x, repeated, alpha, ctx.eps = inputs
        _, mean, var = output
        ctx.save_for_backward(x, repeated, alpha, mean, var)
        ctx.mark_non_differentiable(mean, var)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, None]:
        x, repeated, alpha, mean, var = ctx.saved_tensors
        root = _root(var, alpha, ctx.eps)
        scale, shift = _over_rows(mean, root, repeated)
        normed = _rows(x) * scale + shift  # without alpha
        back = _rows(gradients[0])
        level, slope = torch.stack([back.sum(0), (back * normed).sum(0)]) @ repeated.mT / _count(x)  # [channels]
        to_alpha = (slope * root.square()).sum() * (ctx.eps * _count(x))
        levels, slopes = torch.stack([level, alpha.square() * slope]) @ repeated
        to_x = alpha * scale * (back - levels - normed * slopes)
        return _images(to_x.to(x.dtype), x), None, to_alpha.reshape(alpha.shape), None


def _rows(x: Tensor) -> Tensor:
    """`[batch * height, width * channels]` in float32: a view where channels are innermost."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0] * x.shape[2], -1).float()


def _images(rows: Tensor, like: Tensor) -> Tensor:
    batch, channels, height, width = like.shape
    return rows.view(batch, height, width, channels).permute(0, 3, 1, 2)


def _root(var: Tensor, alpha: Tensor, eps: float) -> Tensor:
    """`[channels]`: one over the deviation of `alpha * x`."""
    return torch.rsqrt(alpha.square() * var + eps)


def _over_rows(mean: Tensor, root: Tensor, repeated: Tensor) -> Tensor:
    """`[2, width * channels]`: what a row is multiplied by, and what is added."""
    return torch.stack([root, -mean * root]) @ repeated


def _count(x: Tensor) -> int:
    return x.shape[0] * x.shape[2] * x.shape[3]
