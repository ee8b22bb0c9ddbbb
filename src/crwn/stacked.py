"""`vmap` for whole networks: over stacked tasks, or over rows that have a task each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel


def stacked(function: Callable[..., Any], *, randomness: str = "error") -> Callable[..., Any]:
    """The function over the first dimension of all its arguments, with attention computed in a way vmap can fold."""
    batched = vmap(function, randomness=randomness)

    def call(*arguments: Any) -> Any:
        with _plain_attention():
            return batched(*arguments)

    return call


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Fused attention kernels have no batching rule: inside vmap they would run task by task, with a warning."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
