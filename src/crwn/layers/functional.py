"""Products with frozen weights and a learned gain, as autograd functions that compute no gradient of the weights."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.layers.products import product


def modulated_linear(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    """`(gain * x) @ weight.T` for rows `[..., rows, in]` and a gain `[in]` or `[..., 1, in]`, or one for every row."""
    if _needs_gradient(x, gain, weight):
        return _ByRows.apply(x, gain.reshape(*gain.shape[:-2], 1, -1), weight)  # type: ignore[no-untyped-call, no-any-return]
    return product(x * gain, weight)


def modulated_linear_by_matrix(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    """The same product, computed from the modulated matrix, which is smaller than the rows where outputs are few."""
    if _needs_gradient(x, gain, weight):
        return _ByMatrix.apply(x, gain.reshape(*gain.shape[:-2], 1, -1), weight)  # type: ignore[no-untyped-call, no-any-return]
    return ((weight * gain) @ x.mT).mT


def is_shared(gain: Tensor) -> bool:
    """Whether all rows of a task have the same gain: `[in]`, or `[..., 1, in]`."""
    return gain.ndim == 1 or gain.shape[-2] == 1


def _needs_gradient(x: Tensor, gain: Tensor, weight: Tensor) -> bool:
    """Whether the autograd functions below apply: one gain for all rows, frozen weights, no autocast or compilation."""
    if not torch.is_grad_enabled() or weight.requires_grad or x.ndim < 2 or not is_shared(gain):
        return False
    return not (torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type))


class WithoutGradient(torch.autograd.Function):
    """A function of fixed tensors: its output needs no gradient, whatever its inputs need."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)
        ctx.nothing = (None,) * len(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        nothing: tuple[None, ...] = ctx.nothing
        return nothing


class _Product(torch.autograd.Function):
    """A product of x, gain and weight whose backward pass needs all three."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)


class _ByRows(_Product):
    """`(gain * x) @ weight.T`: x `[..., rows, in]`, gain `[..., 1, in]`, weight `[out, in]` -> `[..., rows, out]`."""

    @staticmethod
    def forward(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        return product(x * gain, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, gain, weight = ctx.saved_tensors
        back = product(gradients[0], weight.mT)
        to_x = back * gain if ctx.needs_input_grad[0] else None
        return to_x, back.mul_(x).sum_to_size(gain.shape), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, gain: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        return _over_tasks(_ByRows, in_dims, x, gain, weight), 0


class _ByMatrix(_Product):
    """`x @ (weight * gain).T`, with the same shapes; outputs are contiguous, so that the next operation is fast."""

    @staticmethod
    def forward(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        return ((weight * gain) @ x.mT).mT.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, gain, weight = ctx.saved_tensors
        to_x = gradients[0] @ (weight * gain) if ctx.needs_input_grad[0] else None
        to_matrix = gradients[0].mT @ x  # [..., out, in]
        return to_x, to_matrix.mul_(weight).sum_to_size(gain.shape), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, gain: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        return _over_tasks(_ByMatrix, in_dims, x, gain, weight), 0


for _function in (_ByRows, _ByMatrix):
    # `apply` asks for the signature at every call, and computing it takes as long as a product of a small table.
    _function.forward.__signature__ = inspect.signature(_function.forward)  # type: ignore[attr-defined]


def _over_tasks(
    function: type[torch.autograd.Function],
    in_dims: tuple[int | None, ...],
    x: Tensor,
    gain: Tensor,
    weight: Tensor,
) -> Tensor:
    """The product of a whole stack: the tasks become the first dimension of rows and gains."""
    x_dim, gain_dim, weight_dim = in_dims
    if weight_dim is not None:  # every task has other weights: nothing to share
        return torch.func.vmap(_by_rows, in_dims=in_dims)(x, gain, weight)
    if x_dim is not None:
        x = x.movedim(x_dim, 0)
    if gain_dim is not None:
        gain = gain.movedim(gain_dim, 0)
        rows = x.ndim - (x_dim is not None)
        gain = gain.reshape(len(gain), *[1] * (rows - gain.ndim + 1), *gain.shape[1:])
    if x_dim is None:
        x = x.expand(len(gain), *x.shape)
    out: Tensor = function.apply(x, gain, weight)  # type: ignore[no-untyped-call]
    return out


def _by_rows(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x * gain, weight)
