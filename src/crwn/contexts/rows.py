"""The memory of stacked contexts: one buffer, each row of it with the bytes of a context in their stored order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from crwn.contexts.dtype import Store, stored_dtype
from crwn.contexts.layout import Layout, layout_of
from crwn.contexts.record import StoredContext

_DTYPES = {"f": torch.float32, "e": torch.float16, "b": torch.int8}  # by NumPy's character
_CHARACTERS = {dtype: character for character, dtype in _DTYPES.items()}
ALIGNED = 8  # bytes that a row's length is a multiple of


class ContextRows:
    """Rows for contexts of these shapes; `tensors` are views of the buffer, `[room, ...]` by name.

    Args:
        shapes: name and shape of each tensor of one context.
        store: dtype in memory.
        room: number of rows.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], store: Store, room: int) -> None:
        kinds = {key: _CHARACTERS[stored_dtype(key, len(shape), store)] for key, shape in shapes.items()}
        self.layout: Layout = layout_of(tuple((key, kinds[key], shape) for key, shape in shapes.items()))
        self._allocate(torch.zeros(room, -(-self.layout.size // ALIGNED) * ALIGNED, dtype=torch.uint8))

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self._buffer.numel()

    def fits(self, stored: StoredContext) -> bool:
        """Whether the bytes of this context can be copied into a row as they are."""
        # The layouts of contexts that a bank stores are the same object.
        return stored.layout is self.layout or stored.layout == self.layout

    def write(self, row: int, stored: StoredContext) -> None:
        """Copy a context that fits into a row."""
        self._array[row, : self.layout.size] = np.frombuffer(stored.data, np.uint8, offset=stored.start)

    def move(self, row: int, to: int) -> None:
        """Copy a row to another place."""
        self._array[to] = self._array[row]

    def grow(self) -> None:
        """Double the number of rows."""
        self._allocate(torch.cat([self._buffer, torch.zeros_like(self._buffer)]))

    def _allocate(self, buffer: Tensor) -> None:
        self._buffer = buffer
        self._array = buffer.numpy()  # the same memory
        self.tensors: dict[str, Tensor] = {
            key: buffer[:, first:end].view(_DTYPES[dtype.char]).view(len(buffer), *shape)
            for key, dtype, shape, first, end in self.layout.tensors
        }
