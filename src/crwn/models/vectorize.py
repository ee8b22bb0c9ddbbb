"""A function over the first dimension of its arguments: by `vmap` where it can be, one by one where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map

# Parts of the messages of what vmap refuses, or computes with memory of another layout (torch 2.13).
VMAP_MESSAGES = (
    "vmap",  # branches on values, .item(), results of varying shape, functions without a rule, random numbers
    "functorch",  # an autograd.Function in the old style
    "Batching rule not implemented",  # recurrent layers, out= arguments
    "BatchedTensorImpl",  # deepcopy, pickle
    "Tensor that doesn't have storage",  # .numpy(), .tolist()
    "doesn't match the broadcast shape",  # a tensor of one task added in place to one of all
    "view size is not compatible",  # values of one task are not adjacent in memory
)


def stacked(function: Callable[..., Any], *, randomness: str = "error") -> Callable[..., Any]:
    """The function over the first dimension of all its arguments, with attention computed in a way vmap can batch.

    What vmap cannot compute (recurrent layers, a forward pass that branches on values) is computed one by one. Every
    other error is raised: running out of memory, for example, is no reason to do the work again.
    """
    batched = vmap(function, randomness=randomness)

    def call(*arguments: Any) -> Any:
        with math_attention():
            try:
                return batched(*arguments)
            except RuntimeError as error:
                if not refused_by_vmap(error):
                    raise
            return _one_by_one(function, arguments)

    return call


def over_rows(
    call: Callable[[Mapping[str, Tensor], Tensor], Tensor], tensors: Mapping[str, Tensor], x: Tensor
) -> Tensor:
    """`call(context, rows)` for every row with its own context: tensors `[rows, ...]`, x `[rows, ...]`."""
    out: Tensor = stacked(lambda context, row: call(context, row[None])[0])(dict(tensors), x)
    return out


def refused_by_vmap(error: RuntimeError) -> bool:
    """Whether an error comes from vmap, so that the same function may work without it."""
    # Torch raises NotImplementedError for operations that a kind of tensor lacks: vmap views sparse tensors.
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in VMAP_MESSAGES)


def works_under_vmap(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether vmap can compute the function for these arguments, found by trying."""
    with math_attention():
        try:
            vmap(function, randomness="different")(*arguments)
        except MemoryError:
            raise
        except Exception:  # whatever it is: computed one by one it works, or raises its own error
            return False
    return True


def _one_by_one(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    count = len(tree_leaves(arguments)[0])
    return torch.stack([function(*tree_map(lambda tensor, at=at: tensor[at], arguments)) for at in range(count)])


@contextmanager
def math_attention() -> Iterator[None]:
    """Attention without fused kernels: they have no batching rule, so vmap would run them task by task."""
    with no_attention_fast_path(), sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def no_attention_fast_path() -> Iterator[None]:
    """Encoders computed as in training: the fast path of inference treats rows that are padding differently."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
