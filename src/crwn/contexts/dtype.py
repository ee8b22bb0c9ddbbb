"""The dtypes that contexts are stored in: float32, float16, or int8 with a scale."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from crwn.errors import ContextError

Store = Literal["float32", "float16", "int8"]
STORES: tuple[Store, ...] = ("float32", "float16", "int8")
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}


def check_store(store: str) -> Store:
    """Return `store` if it is one of STORES; ContextError otherwise."""
    for known in STORES:
        if store == known:
            return known
    raise ContextError(f"store={store!r} is unknown: use one of {', '.join(STORES)}")


def stored_dtype(key: str, ndim: int, store: Store) -> torch.dtype:
    """The dtype that a tensor of this name and number of dimensions is stored in."""
    # Scalars and batch-norm statistics take next to no space, and would lose too much precision in int8.
    if store == "int8" and (ndim == 0 or key.endswith(("running_mean", "running_var"))):
        return torch.float32
    return _DTYPES[store]


def pack(key: str, tensor: Tensor, store: Store) -> tuple[Tensor, float]:
    """Convert a tensor to its stored dtype; returns it with its scale (1 unless int8)."""
    dtype = stored_dtype(key, tensor.ndim, store)
    if dtype == torch.int8:
        scale = np.float32((tensor.abs().max().item() if tensor.numel() else 0.0) / 127)
        if float(scale) * 127 > torch.finfo(torch.float32).max:
            scale = np.nextafter(scale, np.float32(0))  # rounded up, the largest value would be read as infinite
        if scale < torch.finfo(torch.float32).tiny:
            scale = np.float32(1)  # values that small are stored as zero
        return torch.round(tensor / float(scale)).clamp(-127, 127).to(torch.int8), float(scale)
    if dtype == torch.float32:
        return tensor, 1.0
    packed = tensor.to(dtype)
    if not np.isfinite(packed.numpy()).all():
        raise ContextError(f'{key} holds {tensor.abs().max().item():g}, too large for float16: use store="float32"')
    return packed, 1.0


def unpack(tensor: Tensor, scale: float) -> Tensor:
    """Convert a stored tensor to float32."""
    if tensor.dtype not in _DTYPES.values():
        raise TypeError(f"tensor of {tensor.dtype}, expected one of {', '.join(STORES)}")
    return tensor.float() * scale if tensor.dtype == torch.int8 else tensor.float()
