"""The protocol that every network implements, and the base class of crwn's own networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from crwn.layers import parameters_table
from crwn.models.row_contexts import RowContexts, row_contexts
from crwn.models.tied import TiedNames, functional_call_tied, tied_names
from crwn.models.vectorize import over_rows

NamedTensors = Iterator[tuple[str, Tensor]]
Scale = float | tuple[float, ...]
Scaling = tuple[Scale, Scale]  # mean and deviation of all values of a row, or one for each channel
Caller = Callable[[Mapping[str, Tensor], Tensor], Tensor]


class Capabilities(Protocol):
    """What a network is and can do. `network_of(model)` returns it for any `nn.Module`."""

    @property
    def kind(self) -> str:
        """The architecture's name."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The arguments that the network was made with; empty where they are not known."""

    @property
    def classes(self) -> int | None:
        """The number of outputs; None where it is not known."""

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of one row; None where it is not known."""

    @property
    def normalized(self) -> bool:
        """Whether hidden rows are normalized, so that higher learning rates work."""

    @property
    def suggested_rate(self) -> float:
        """The learning rate to use with Adam where the caller gives none."""

    @property
    def byte_scaling(self) -> Scaling | None:
        """Mean and deviation that uint8 rows are standardized with; None where every task measures its own."""

    @property
    def float_scaling(self) -> Scaling | None:
        """The same for rows of other numbers, which are from 0 to 1 then; None where every task measures its own."""

    @property
    def rowwise(self) -> bool:
        """Whether every row of a batch may have a context of its own, by broadcasting alone."""

    @property
    def pure(self) -> bool:
        """Whether the forward pass is known to draw no random numbers, to leave the network's tensors unchanged, to
        return `[rows, classes]`, and to work for stacked tasks. Where it is not known, it is checked."""

    @property
    def rebuildable(self) -> bool:
        """Whether `build(describe(network))` makes the same network again."""

    @property
    def merges_completely(self) -> bool:
        """Whether merging a context replaces all layers that hold frozen weights."""

    @property
    def identity(self) -> Mapping[str, Any] | str:
        """What tells this network from others, frozen weights aside: part of its fingerprint."""

    @property
    def record(self) -> dict[str, Any]:
        """What a model folder stores: `kind` and `config`."""

    def frozen_tensors(self) -> NamedTensors:
        """Tensors that nothing writes to, so that copies of the network may share them."""

    def caller(self) -> Caller:
        """A function (tensors, x) -> outputs for rows `x` with the tensors in place of the network's own.

        Tensors that are not given stay the network's. Get the function once for many calls.
        """

    def forward_rows(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The outputs, without gradients, for rows that each have a context: tensors `[rows, ...]`, x `[rows, ...]`."""


class Network(nn.Module):
    """A network of crwn's own: its kind and configuration describe it completely.

    A subclass sets `kind`, `config`, `classes` and `input_shape`, and overrides `forward_with` where it can compute
    with given tensors directly, which is faster than swapping them into the module.
    """

    kind: ClassVar[str]
    byte_scaling: Scaling | None = None
    float_scaling: Scaling | None = None
    rowwise: ClassVar[bool] = False
    pure: ClassVar[bool] = True
    rebuildable: bool = True
    merges_completely: ClassVar[bool] = True
    config: dict[str, Any]
    classes: int
    input_shape: tuple[int, ...]
    suggested_rate: float = 0.1

    @property
    def normalized(self) -> bool:
        return False

    @property
    def identity(self) -> dict[str, Any]:
        return self.record

    @property
    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config}

    def frozen_tensors(self) -> NamedTensors:
        yield from self.named_parameters()
        yield from self.named_buffers()

    def caller(self) -> Caller:
        if type(self).forward_with is not Network.forward_with:
            return self.call_with_context
        # Outside of what is compiled: comparing tensors there makes every replica another network for torch.
        return partial(self.call_with_context, tied=tied_names(self))

    def call_with_context(self, tensors: Mapping[str, Tensor], x: Tensor, *, tied: TiedNames | None = None) -> Tensor:
        """The outputs for rows `x` with these tensors in place of the network's own."""
        if self.must_swap(tensors):
            return functional_call_tied(self, tensors, x, tied)
        return self.forward_with(tensors, x)

    def must_swap(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether the tensors have to be put into the module for the call, instead of being passed to the layers."""
        hooked = self._forward_hooks or self._forward_pre_hooks  # they run only when the module itself is called
        # The first task of a pretrained network also trains the frozen weights.
        return bool(hooked) or not all(name.endswith((".v", ".alpha")) for name in tensors)

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """`forward` with the given `v` and `alpha` in place of the network's own."""
        return functional_call_tied(self, tensors, x)

    def forward_rows(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        if not self.rowwise:
            return over_rows(self.call_with_context, tensors, x)
        contexts = row_contexts(tensors)
        if self.must_swap(tensors):
            return functional_call_tied(self, contexts.broadcastable(), x)
        return self.forward_with_contexts(contexts, x)

    def forward_with_contexts(self, contexts: RowContexts, x: Tensor) -> Tensor:
        """The same by broadcasting; a network that is `rowwise` implements it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        table = parameters_table(self)
        return f"{super().__repr__()}\n{table}" if table else super().__repr__()
