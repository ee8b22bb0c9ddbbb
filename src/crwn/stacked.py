"""`vmap` for whole networks: over stacked tasks, or over rows that have a task each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map

CANNOT_FOLD = ("Batching rule not implemented", "vmap: It looks like you're", "vmap: we do not yet support")


def stacked(function: Callable[..., Any], *, randomness: str = "error") -> Callable[..., Any]:
    """The function over the first dimension of all its arguments, with attention computed in a way vmap can fold.

    What vmap cannot fold (recurrent layers, a forward pass that branches on values) is done one after another.
    """
    batched = vmap(function, randomness=randomness)

    def call(*arguments: Any) -> Any:
        with _plain_attention():
            try:
                return batched(*arguments)
            except RuntimeError as error:
                if not any(sign in str(error) for sign in CANNOT_FOLD):
                    raise
        return _one_by_one(function, arguments)

    return call


def _one_by_one(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    count = len(tree_leaves(arguments)[0])
    return torch.stack([function(*tree_map(lambda tensor, at=at: tensor[at], arguments)) for at in range(count)])


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
