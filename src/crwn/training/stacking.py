"""How many tasks to learn at once: a rule of sizes, never of timing, so that results do not depend on load."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

from torch import nn

from crwn.data.dataset import Rows
from crwn.layers.weights import FrozenWeights

CACHE_BYTES = 8 * 2**20
MOST = 16


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


def stacks(alike: Sequence[Hashable], size: int, *, in_order: bool = False) -> list[list[int]]:
    """Positions of the tasks that are trained together: those with equal keys, at most `size` of them.

    Args:
        alike: a key for every task; tasks with different keys cannot be stacked (`stack_key`).
        in_order: only neighbours are stacked, so that tasks finish in their order, in stacks of exactly `size`;
            otherwise stacks of one key are evenly large.

    >>> stacks([1, 2, 1, 1], 2)
    [[0, 2], [3], [1]]
    >>> stacks([1, 2, 1, 1], 2, in_order=True)
    [[0], [1], [2, 3]]
    """
    runs: list[list[int]] = []
    if in_order:
        runs = [[at for at, _ in group] for _, group in groupby(enumerate(alike), key=lambda pair: pair[1])]
        sizes = [size] * len(runs)
    else:
        by_key: dict[Hashable, list[int]] = {}
        for at, key in enumerate(alike):
            by_key.setdefault(key, []).append(at)
        runs = list(by_key.values())
        sizes = [even_size(len(run), size) for run in runs]
    return [run[at : at + step] for run, step in zip(runs, sizes, strict=True) for at in range(0, len(run), step)]


def stack_key(rows: Rows, validation: Rows | None = None) -> Hashable:
    """What tasks of one stack have in common: row count, shapes of rows and targets, whether there is validation."""
    targets = None if rows.y is None else (tuple(rows.y.shape[1:]), rows.y.is_floating_point())
    return len(rows), tuple(rows.x.shape[1:]), targets, validation is None
