"""A model's outputs under contexts: one for all rows, or one of its own for every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from crwn.models import Network
from crwn.own_modules import readable_errors
from crwn.rows import Rows
from crwn.stacked import no_fast_path, stacked

Tensors = dict[str, Tensor]
Shared = tuple[tuple[str, str], ...]


def under(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, shared: Shared | None = None) -> Tensor:
    """The model's outputs with the context `tensors` in the place of its own; `shared` as for `swapped`."""
    hooked = model._forward_hooks or model._forward_pre_hooks  # people's own: they want the call of the module
    if isinstance(model, Network) and not hooked:
        return model.under(tensors, x)
    return swapped(model, tensors, x, shared)


def swapped(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, shared: Shared | None = None) -> Tensor:
    """The module called with these tensors in their places for a moment, in every place that shares one of them.

    Args:
        shared: `shared_names(model)`, for those who call it often.
    """
    pairs = shared_names(model) if shared is None else shared
    again = {other: tensors[name] for other, name in pairs if name in tensors and other not in tensors}
    # Not `tie_weights=True`: torch then swaps a layer that has two names twice, and leaves the tensors in it.
    out: Tensor = functional_call(model, {**tensors, **again}, (x,), tie_weights=False)
    return out


def shared_names(model: nn.Module) -> Shared:
    """(another name, name) of every tensor that several layers share; a layer with two names counts once."""
    first: dict[int, str] = {}
    pairs = []
    for prefix, part in model.named_modules():
        for last, held in (*part._parameters.items(), *part._buffers.items()):
            if held is not None:
                name = f"{prefix}.{last}" if prefix else last
                known = first.setdefault(id(held), name)
                if known != name:
                    pairs.append((name, known))
    return tuple(pairs)


@torch.no_grad()
def predict_logits(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    rows: Rows,
    *,
    classes: int | None = None,
    batch_size: int = 1000,
    device: str | torch.device = "cpu",
) -> Tensor:
    """Logits of all rows under one context, `[rows, classes]`, in evaluation mode."""
    training = model.training
    model.eval()
    try:
        placed = {name: value.to(device) for name, value in tensors.items()}
        if isinstance(model, Network):
            parts = [under(model, placed, x.to(device)).float().cpu() for x in rows.batches(batch_size)]
        else:
            parts = [_of_another(model, placed, x.to(device)).float().cpu() for x in rows.batches(batch_size)]
    finally:
        model.train(training)
    logits = torch.cat(parts)
    return logits if classes is None else logits[:, :classes]


def _of_another(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    with no_fast_path(), readable_errors(model, x):
        return under(model, tensors, x)


@torch.no_grad()
def mixed_logits(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Logits of rows that each have a context of their own: tensors `[rows, ...]`, x `[rows, ...]`, in one pass."""

    def one(row_tensors: Tensors, row: Tensor) -> Tensor:
        return under(model, row_tensors, row[None])[0]

    if getattr(model, "rowwise", False):
        # alpha [rows, 1] beside v [rows, in]: less to set up than vmap, which counts in small batches. Nothing in such
        # a network differs between training and evaluation.
        return under(model, _PerRow(tensors), x)
    training = model.training
    model.eval()
    try:
        with readable_errors(model, x):
            out: Tensor = stacked(one)(dict(tensors), x)
    finally:
        model.train(training)
    return out


class _PerRow(Mapping[str, Tensor]):
    """Tensors `[rows, ...]` so that they broadcast against rows; each is taken only when a layer asks for it."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self.fresh = getattr(tensors, "fresh", False)

    def __getitem__(self, name: str) -> Tensor:
        value = self._tensors[name]
        return value[:, None] if value.ndim == 1 else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Share of rows whose largest logit is their class."""
    return float((logits.argmax(dim=1) == y).float().mean())
