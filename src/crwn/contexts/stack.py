"""Many contexts of one model in stacked tensors, from which each sample of a batch selects its task's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from crwn.contexts.context import Context, check_shapes
from crwn.contexts.dtype import Store, check_store, pack
from crwn.contexts.info import ContextInfo
from crwn.contexts.names import check_free
from crwn.contexts.record import StoredContext
from crwn.contexts.rows import ContextRows
from crwn.errors import ContextError, TaskError
from crwn.layers import Modulated
from crwn.models.row_contexts import RowContexts


class ContextStack:
    """Contexts of one model as `[K, ...]` tensors: selecting a task is an index, a batch of mixed tasks a gather.

    Args:
        shapes: name and shape of each tensor of one context.
        store: dtype in memory: float32, float16, or int8 with a scale per row and tensor; returned as float32.
        capacity: rows allocated at first; the allocation doubles when it is full.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], *, store: Store = "float32", capacity: int = 8) -> None:
        self.store = check_store(store)
        self.shapes = {key: tuple(shapes[key]) for key in sorted(shapes)}
        self._names: list[str] = []
        self._classes: list[tuple[Hashable, ...]] = []
        self._info: list[ContextInfo] = []
        self._index: dict[str, int] = {}
        self._rows = ContextRows(self.shapes, self.store, max(1, capacity))
        self._scales = {
            key: torch.ones(len(self._rows)) for key, rows in self._rows.tensors.items() if rows.dtype == torch.int8
        }

    @classmethod
    def from_contexts(cls, contexts: Iterable[Context], *, store: Store = "float32") -> ContextStack:
        """Stack these contexts in their order."""
        contexts = list(contexts)
        if not contexts:
            raise ContextError("a stack needs at least one context to know its shapes: give one")
        shapes = {key: tuple(tensor.shape) for key, tensor in contexts[0].tensors.items()}
        stack = cls(shapes, store=store, capacity=len(contexts))
        for context in contexts:
            stack.append(context)
        return stack

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in row order."""
        return tuple(self._names)

    @property
    def bytes(self) -> int:
        """Memory of the stack, allocated but unused rows included."""
        return self._rows.bytes + sum(scales.numel() * scales.element_size() for scales in self._scales.values())

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All rows, `[K, ...]` by name; not copied if they are float32 in memory."""
        return {key: self._open(key, slice(0, len(self))) for key in self.shapes}

    def index(self, name: str) -> int:
        """The row of this task."""
        try:
            return self._index[name]
        except KeyError:
            raise TaskError(f'task "{name}" is not among the {len(self)} stacked ones: append it first') from None

    def positions(self, names: Iterable[str]) -> Tensor:
        """The rows of these tasks, `[B]` int64."""
        names = list(names)
        try:
            return torch.tensor([self._index[name] for name in names], dtype=torch.int64)
        except KeyError:
            return torch.tensor([self.index(name) for name in names], dtype=torch.int64)  # raises for the missing one

    def classes(self, row: int) -> tuple[Hashable, ...]:
        """Class labels of the task in this row."""
        return self._classes[self._checked(row)]

    def info(self, row: int) -> ContextInfo:
        """Facts about the task in this row."""
        return self._info[self._checked(row)]

    def row(self, row: int) -> dict[str, Tensor]:
        """One task's tensors by name."""
        at = self._checked(row)
        return {key: self._open(key, slice(at, at + 1))[0] for key in self.shapes}

    def gather(self, positions: Tensor) -> dict[str, Tensor]:
        """The tensors of the tasks in these rows, `[B, ...]` by name."""
        return dict(self.lazily(positions))

    def lazily(self, positions: Tensor) -> Mapping[str, Tensor]:
        """Like `gather`, but each tensor is copied on access, so that it is in the CPU's cache when a layer uses it."""
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < len(self):
            raise ContextError(
                f"rows {int(positions.min())} to {int(positions.max())} asked of a stack of {len(self)}: "
                "take them from index() or positions()"
            )
        return _Gathered(self, positions)

    def append(self, context: Context) -> int:
        """Add a task and return its row."""
        check_free([context.name], self._index, where="the stack")
        check_shapes(context, self.shapes)
        row = self._new_row()
        self._write(row, context)
        return self._name(row, context)

    def append_stored(self, stored: StoredContext) -> int:
        """Add a task as it was read from a bank; its bytes are copied from there straight into the row."""
        if not self._rows.fits(stored):
            return self.append(Context.from_stored(stored))
        check_free([stored.name], self._index, where="the stack")
        row = self._new_row()
        self._rows.write(row, stored)
        for key, scales in self._scales.items():
            scales[row] = stored.scales.get(key, 1.0)
        return self._name(row, stored)

    def _name(self, row: int, context: Context | StoredContext) -> int:
        """Enter a task whose tensors are in this row, the one after the last."""
        self._names.append(context.name)
        self._classes.append(context.classes)
        self._info.append(context.info)
        self._index[context.name] = row
        return row

    def replace(self, context: Context) -> int:
        """Overwrite a task's context and return its row."""
        row = self.index(context.name)
        check_shapes(context, self.shapes)
        self._write(row, context)
        self._classes[row] = context.classes
        self._info[row] = context.info
        return row

    def remove(self, name: str) -> None:
        """Remove a task; the last row moves to its place."""
        row, last = self.index(name), len(self) - 1
        if row != last:
            self._rows.move(last, row)
            for scales in self._scales.values():
                scales[row] = scales[last]
            self._names[row], self._classes[row] = self._names[last], self._classes[last]
            self._info[row] = self._info[last]
            self._index[self._names[row]] = row
        self._names.pop()
        self._classes.pop()
        self._info.pop()
        del self._index[name]

    def _checked(self, row: int) -> int:
        if not 0 <= row < len(self):
            raise ContextError(f"row {row} asked of a stack of {len(self)}: take it from index()")
        return row

    def _write(self, row: int, context: Context) -> None:
        packed = {key: pack(key, tensor, self.store) for key, tensor in context.tensors.items()}
        for key, (tensor, scale) in packed.items():
            self._rows.tensors[key][row] = tensor
            if key in self._scales:
                self._scales[key][row] = scale

    def _open(self, key: str, at: Tensor | slice) -> Tensor:
        # Copies whole rows, several times faster than indexing with a tensor.
        all_rows = self._rows.tensors[key]
        rows = all_rows[at] if isinstance(at, slice) else all_rows.index_select(0, at)
        if key in self._scales:
            return rows.float() * self._scales[key][at].view(-1, *[1] * (rows.ndim - 1))
        return rows.float()

    def _new_row(self) -> int:
        """The position after the last task, for which there is memory."""
        if len(self) == len(self._rows):
            self._rows.grow()
            for key, scales in self._scales.items():
                self._scales[key] = torch.cat([scales, torch.ones_like(scales)])
        return len(self)


class _Gathered(RowContexts):
    """Rows of a stack, which must not change as long as this is in use."""

    def __init__(self, stack: ContextStack, positions: Tensor) -> None:
        self._stack = stack
        self._positions = positions

    def __getitem__(self, key: str) -> Tensor:
        return self._stack._open(key, self._positions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stack.shapes)

    def __len__(self) -> int:
        return len(self._stack.shapes)

    def gain(self, layer: Modulated, name: str) -> Tensor:
        if f"{name}.v" not in self._stack.shapes:
            return super().gain(layer, name)
        # The lookup copies the rows, so the copy can be scaled in place.
        return self[f"{name}.v"].mul_(self.alpha(layer, name))
