"""`vmap` for whole networks: over stacked tasks, or over rows that have a task each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map


def stacked(function: Callable[..., Any], *, randomness: str = "error") -> Callable[..., Any]:
    """The function over the first dimension of all its arguments, with attention computed in a way vmap can fold.

    What vmap cannot fold (recurrent layers, a forward pass that branches on values) is done one after another; so is
    what fails for another reason, which then fails with its own words.
    """
    batched = vmap(function, randomness=randomness)

    def call(*arguments: Any) -> Any:
        with plain_attention():
            try:
                return batched(*arguments)
            except RuntimeError:
                return _one_by_one(function, arguments)

    return call


def folds(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether vmap can do this function for several arguments at once: told by trying."""
    with plain_attention():
        try:
            vmap(function, randomness="different")(*arguments)
        except Exception:  # whatever it is: one after another it works, or says what is wrong
            return False
    return True


def _one_by_one(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    count = len(tree_leaves(arguments)[0])
    return torch.stack([function(*tree_map(lambda tensor, at=at: tensor[at], arguments)) for at in range(count)])


@contextmanager
def plain_attention() -> Iterator[None]:
    """Fused attention kernels have no batching rule: inside vmap they would run task by task, with a warning."""
    with no_fast_path(), sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Encoders computed as while they learn: torch's fast path treats rows that are padding otherwise."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
