"""How much of a forward pass may run at once where others wait for the model."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from crwn.layers import context_tensors
from crwn.models import EncodedNetwork

# Multiplications of one slice: some tens of milliseconds of one core.
SLICE = 2**31

Cost = tuple[int, int]  # multiplications of one row: for all tasks together, and for each task
_counted: weakref.WeakKeyDictionary[nn.Module, dict[tuple[int, ...], Cost]] = weakref.WeakKeyDictionary()


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts floating-point operations of matrix products and convolutions in this thread."""

    total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: at the first call, while predictions wait, torch would load its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        out = func(*args, **given)
        count = flop_registry.get(func._overloadpacket)
        self.total += 0 if count is None else int(count(*args, **given, out_val=out))
        return out


def cost_of(model: nn.Module, row: Tensor) -> Cost:
    """What predicting one row costs. The model is called, so nobody else may use it meanwhile; the result is kept."""
    known = _counted.setdefault(model, {})
    shape = tuple(row.shape)
    if shape not in known:
        learned = sum(tensor.numel() for tensor in context_tensors(model).values())
        with torch.no_grad(), _Counter() as counter:  # type: ignore[no-untyped-call]
            model(row[None])
        whole = max(counter.total // 2, learned, 1)
        known[shape] = (whole, learned) if isinstance(model, EncodedNetwork) else (0, whole)
    return known[shape]


def slice_sizes(cost: Cost, tasks: int, rows: int) -> tuple[int, int]:
    """How many tasks and how many of their rows one slice takes: at most `SLICE` multiplications, or a single row.

    >>> slice_sizes((0, 2**20), tasks=64, rows=16)
    (64, 16)
    >>> slice_sizes((0, 2**24), tasks=64, rows=16), slice_sizes((0, 2**24), tasks=64, rows=512)
    ((8, 16), (1, 128))
    >>> slice_sizes((2**25, 2**12), tasks=64, rows=512)
    (64, 31)
    """
    shared, own = cost
    budget = SLICE // 2 if shared else SLICE
    step = max(1, min(rows, budget // (shared + own)))
    return max(1, min(tasks, budget // (own * step))), step
