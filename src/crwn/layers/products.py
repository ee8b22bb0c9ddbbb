"""Products of matrices, by the library that is fastest for them on this processor.

torch multiplies float32 matrices by MKL. On an AMD processor with AVX-512 oneDNN, which torch brings along for
convolutions, is about twice as fast (`results/bench/products.json`).
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

# Smaller products take about as long by either library.
LEAST_MULTIPLICATIONS = 2_000_000
LEAST_ROWS = 16


def product(x: Tensor, weight: Tensor) -> Tensor:
    """`x @ weight.T` for rows `[..., in]` and a matrix `[out, in]`, with gradients, also inside `vmap`.

    >>> product(torch.ones(2, 3), torch.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    if _pays(x, weight):
        return _ByOneDNN.apply(x, weight)  # type: ignore[no-untyped-call, no-any-return]
    return F.linear(x, weight)


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies float32 matrices faster than torch's BLAS on this processor."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):  # type: ignore[no-untyped-call]
        return False
    try:
        return "GenuineIntel" not in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _pays(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is large enough, and one that oneDNN can take over."""
    # Compilers, and modes that watch operations (counters of multiplications), know `F.linear` alone.
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    if torch.is_autocast_enabled("cpu") or _get_current_dispatch_mode() is not None:
        return False
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        return False
    rows = x.numel() // max(1, x.shape[-1])
    if rows < LEAST_ROWS or rows * weight.numel() < LEAST_MULTIPLICATIONS:
        return False
    if not (x.dtype == weight.dtype == torch.float32 and x.device.type == weight.device.type == "cpu"):
        return False
    return onednn_is_faster()


def _padded(rows: Tensor) -> Tensor:
    """Rows and zeros up to a multiple of an eighth of their number, at least 16.

    oneDNN keeps the code that it makes for every shape: with any number of rows that is gigabytes in a long process.
    """
    step = 1 << max(len(rows).bit_length() - 4, 4)
    missing = -len(rows) % step
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


class _ByOneDNN(torch.autograd.Function):
    """`x @ weight.T` by oneDNN."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        out: Tensor = torch.ops.mkldnn._linear_pointwise(_padded(rows), weight, None, "none", [], "")
        # No view of it for autograd, which would forbid to change it in place.
        whole: Tensor = torch.ops.aten._unsafe_view(out[: len(rows)], [*x.shape[:-1], len(weight)])
        return whole

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, to_x: Tensor | None, to_weight: Tensor | None) -> Tensor:
        x, weight = ctx.saved_tensors
        parts = [] if to_x is None else [product(to_x, weight)]
        parts += [] if to_weight is None else [product(x, to_weight)]
        return torch.stack(parts).sum(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = product(gradients[0], weight.mT) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_x, None
        rows, back = _padded(x.reshape(-1, x.shape[-1])), _padded(gradients[0].reshape(-1, len(weight)))
        return to_x, product(back.mT, rows.mT)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        x_dim, weight_dim = in_dims
        if x_dim is not None:
            x = x.movedim(x_dim, 0)
        if weight_dim is None:  # the rows of all tasks in one product
            return product(x, weight), 0
        each = weight.movedim(weight_dim, 0)
        return torch.stack([product(x if x_dim is None else x[i], one) for i, one in enumerate(each)]), 0


# `apply` asks for the signature at every call, and computing it takes as long as a product of a small table.
_ByOneDNN.forward.__signature__ = inspect.signature(_ByOneDNN.forward)  # type: ignore[attr-defined]
