"""How many tasks to learn at once: a rule of sizes, never of timing, so that numbers do not depend on load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from torch import nn

from crwn.weights import FrozenWeights

CACHE_BYTES = 8 * 2**20
MOST = 16

Item = TypeVar("Item")


def stack_size(widest: int, *, batch_size: int = 128) -> int:
    """Tasks whose widest activations, float32, fill about 8 MB of cache together: between 1 and 16.

    Larger stacks give larger multiplications until the activations no longer stay in the cache.

    >>> stack_size(784), stack_size(4096), stack_size(7840)
    (16, 4, 2)
    """
    return max(1, min(MOST, CACHE_BYTES // (4 * batch_size * widest)))


def widest_layer(model: nn.Module) -> int | None:
    """The largest number of features between two layers, or None for a network with layers that are not stacked."""
    alone = (nn.Conv1d, nn.Conv2d, nn.RNNBase, nn.RNNCellBase)
    if any(isinstance(module, alone) or hasattr(module, "kernel_size") for module in model.modules()):
        return None
    sizes = [max(m.in_features, m.out_features) for m in model.modules() if isinstance(m, FrozenWeights | nn.Linear)]
    return max(sizes, default=None)


def model_stack_size(model: nn.Module, *, batch_size: int = 128) -> int:
    """The rule applied to a model; convolutional and recurrent networks are faster one task after another."""
    widest = widest_layer(model)
    return 1 if widest is None else stack_size(widest, batch_size=batch_size)


def even_size(count: int, size: int) -> int:
    """The size of equally large stacks where one is not enough, so that workers finish together.

    >>> even_size(24, 16), even_size(12, 16), even_size(36, 16)
    (12, 16, 12)
    """
    return size if count <= size else -(-count // -(-count // size))


def in_groups(items: Sequence[Item], keys: Iterable[object], size: int) -> list[list[Item]]:
    """Items with equal keys together, at most `size` in a group, evenly, in order of first appearance.

    >>> in_groups("abcd", [1, 2, 1, 1], 2)
    [['a', 'c'], ['d'], ['b']]
    """
    alike: dict[object, list[Item]] = {}
    for item, key in zip(items, keys, strict=True):
        alike.setdefault(key, []).append(item)
    steps = [(group, even_size(len(group), size)) for group in alike.values()]
    return [group[at : at + step] for group, step in steps for at in range(0, len(group), step)]
