"""Contexts of a batch whose rows each have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from crwn.layers import Modulated


class RowContexts(Mapping[str, Tensor]):
    """Tensors `[rows, ...]` by name: a context for every row of a batch."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def broadcastable(self) -> dict[str, Tensor]:
        """All tensors, shaped to broadcast against rows."""
        return {name: value[:, None] if value.ndim == 1 else value for name, value in self.items()}

    def gain(self, layer: Modulated, name: str) -> Tensor:
        """`alpha * v` of the layer called `name`, `[rows, in]`, as a new tensor that the caller may overwrite."""
        v = self.get(f"{name}.v")
        return self.alpha(layer, name) * (layer.v if v is None else v)

    def alpha(self, layer: Modulated, name: str) -> Tensor:
        """`alpha` of the layer, shaped to broadcast against rows."""
        alpha = self.get(f"{name}.alpha")
        return layer.alpha if alpha is None else alpha[:, None]


def row_contexts(tensors: Mapping[str, Tensor]) -> RowContexts:
    """The same tensors as `RowContexts`."""
    return tensors if isinstance(tensors, RowContexts) else RowContexts(tensors)
