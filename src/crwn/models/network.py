"""What all of crwn's own networks have in common: a configuration that rebuilds them, and a readable print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call

from crwn.layers import numbers_table


class Network(nn.Module):
    """A network that is wholly described by its kind and its configuration."""

    kind: ClassVar[str]
    # Whether a context may have a row of its own for every row of the inputs, by broadcasting alone.
    rowwise: ClassVar[bool] = False
    config: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int

    def under(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """`forward` with the context `tensors` in the place of the network's own."""
        out: Tensor = functional_call(self, dict(tensors), (x,))
        return out

    @staticmethod
    def plain_context(tensors: Mapping[str, Tensor]) -> bool:
        """Whether there is nothing but v and alpha in it: a first task may also train the frozen weights."""
        return all(name.endswith((".v", ".alpha")) for name in tensors)

    def __repr__(self) -> str:
        table = numbers_table(self)
        return f"{super().__repr__()}\n{table}" if table else super().__repr__()
