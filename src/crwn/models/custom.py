"""Modules that crwn did not write, behind the same protocol as its own networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from crwn.models.convert.conversion import conversion
from crwn.models.convert.kept import modulated_weights
from crwn.models.network import Caller, Capabilities, NamedTensors, Network
from crwn.models.tied import functional_call_tied, tied_names
from crwn.models.vectorize import over_rows


def network_of(model: nn.Module) -> Capabilities:
    """What the model is and can do: a `Network` declares it, any other module gets a `CustomModule` around it."""
    return model if isinstance(model, Network) else CustomModule(model)


class CustomModule:
    """Any `nn.Module`: converted by `neuromodulate`, or a plain one such as a baseline's network.

    The author of the module may set the attributes `classes`, `input_shape` and `suggested_rate`; nothing else is
    known about it.
    """

    config: ClassVar[Mapping[str, Any]] = {}
    normalized: ClassVar[bool] = False
    byte_scaling: ClassVar[None] = None
    float_scaling: ClassVar[None] = None
    rowwise: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    rebuildable: ClassVar[bool] = False
    merges_completely: ClassVar[bool] = False

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def classes(self) -> int | None:
        found = getattr(self.module, "classes", None)
        return found if isinstance(found, int) else None

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        return getattr(self.module, "input_shape", None)

    @property
    def suggested_rate(self) -> float:
        return getattr(self.module, "suggested_rate", 0.1)

    @property
    def identity(self) -> Mapping[str, Any] | str:
        converted = conversion(self.module)
        return self.kind if converted is None else converted.crwn_description

    @property
    def record(self) -> dict[str, Any]:
        identity = self.identity
        return {"kind": "own", "config": {"class": identity} if isinstance(identity, str) else identity}

    def frozen_tensors(self) -> NamedTensors:
        # Other tensors of a converted module are copied: it may write to them while it learns.
        if conversion(self.module) is None:
            yield from self.module.named_parameters()
        else:
            yield from ((name, value) for name, _, value in modulated_weights(self.module))

    def caller(self) -> Caller:
        module, tied = self.module, tied_names(self.module)
        return lambda tensors, x: functional_call_tied(module, tensors, x, tied)

    def forward_rows(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return over_rows(self.caller(), tensors, x)
