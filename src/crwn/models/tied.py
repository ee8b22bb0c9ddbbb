"""`torch.func.functional_call` for modules in which several layers share a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.func import functional_call

TiedNames = tuple[tuple[str, str], ...]


def functional_call_tied(
    model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, tied: TiedNames | None = None
) -> Tensor:
    """Call the module with these tensors in place of its own, in every layer that shares one of them.

    Args:
        tied: `tied_names(model)`, for callers that compute it once.
    """
    pairs = tied_names(model) if tied is None else tied
    again = {other: tensors[name] for other, name in pairs if name in tensors and other not in tensors}
    # Not `tie_weights=True`: torch then swaps a layer that has two names twice, and leaves the tensors in it.
    out: Tensor = functional_call(model, {**tensors, **again}, (x,), tie_weights=False)
    return out


def tied_names(model: nn.Module) -> TiedNames:
    """(other name, first name) of every tensor that several layers share; a layer with two names counts once."""
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
