"""What tasks learned: one context alone (and as bytes or a file), and many stacked so that a row picks its own."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import save as arrays_to_bytes
from safetensors.torch import load as tensors_from_bytes
from torch import Tensor

from crwn.errors import ContextError, TaskError

Store = Literal["float32", "float16", "int8"]
STORES: tuple[Store, ...] = ("float32", "float16", "int8")
FORMAT = 1
LONGEST_NAME = 200

to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_EMPTY_CHECKSUM = "0" * 64
_CHECKSUM_MARK = rb"{\"checksum\":\""  # as it stands in the header: JSON inside a JSON string
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}
# Zero-width (non-)joiners are invisible but needed to spell Persian, Hindi and many emoji.
_JOINERS = str.maketrans("", "", "\u200c\u200d")


def now() -> str:
    """The time now, ISO 8601 in UTC, as contexts carry it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_name(name: str) -> str:
    """The name itself when a task may be called so; TaskError otherwise."""
    if not isinstance(name, str):
        raise TaskError(f"task name {name!r} is of type {type(name).__name__}: name tasks with text")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise TaskError(f"task name {name[:20]!r} has {len(name)} characters: use 1 to {LONGEST_NAME}")
    if not name.translate(_JOINERS).isprintable():
        raise TaskError(f"task name {name!r} has characters that cannot be printed: leave them out")
    return name


def check_store(store: str) -> Store:
    """The storage form itself when there is such a one; ContextError otherwise."""
    for known in STORES:
        if store == known:
            return known
    raise ContextError(f"store={store!r} is unknown: use one of {', '.join(STORES)}")


@dataclass(frozen=True, eq=False)
class Context:
    """All that one task learned, by name of the model's parameters and buffers.

    Args:
        name: the task's name.
        tensors: learned numbers by context name; kept as float32 copies on the CPU.
        classes: label values in the order of the outputs: str, int, float, bool, None and tuples of these.
        model: fingerprint of the model that learned it.
        created: when it was learned, ISO 8601 in UTC.
        info: facts that survive JSON: rows, steps, accuracy, seconds.

    Raises:
        ContextError: NaN or infinite numbers, labels or facts that JSON cannot keep.
        TaskError: a name that is not allowed.
    """

    name: str
    tensors: dict[str, Tensor]
    classes: tuple[Hashable, ...]
    model: str
    created: str = field(default_factory=now)
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.tensors:
            raise ContextError(f'context for task "{self.name}" has no tensors: it must hold what the task learned')
        tensors = {}
        for key in sorted(self.tensors):
            tensor = self.tensors[key].detach().to(device="cpu", dtype=torch.float32, copy=True).contiguous()
            if not np.isfinite(tensor.numpy()).all():
                raise ContextError(
                    f'context for task "{self.name}" has NaN or infinite numbers in {key}: learn the task again'
                )
            tensors[key] = tensor
        classes = tuple(plain_label(label, self.name) for label in self.classes)
        if len(set(classes)) != len(classes):
            raise ContextError(f'classes of task "{self.name}" repeat a label: {_short(classes)}: list each once')
        try:
            info = json.loads(json.dumps(self.info, default=_plain_number, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ContextError(f'info of task "{self.name}" does not survive JSON: {error}: use plain values') from None
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "info", info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.checksum)

    @property
    def numbers(self) -> int:
        """How many learned numbers it holds."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    @property
    def checksum(self) -> str:
        """SHA-256 over the whole record: name, classes, tensors, model, when, info."""
        return stored_checksum(self.to_bytes())

    def to_bytes(self, store: Store = "float32") -> bytes:
        """The context as safetensors, its record as JSON in the header, and a checksum over all of it.

        `store="int8"` keeps one scale per tensor; single numbers and batch-norm statistics stay float32.
        """
        check_store(store)
        stored, scales = {}, {}
        for key, tensor in self.tensors.items():
            packed, scale = _pack(key, tensor, store)
            stored[key] = packed.numpy()  # safetensors' way with arrays is four times as fast as with tensors
            if packed.dtype == torch.int8:
                scales[key] = scale
        record = {
            # First, so that the first run of 64 zeros in the bytes is the checksum's own place.
            "checksum": _EMPTY_CHECKSUM,
            "format": FORMAT,
            "name": self.name,
            "classes": [encode_label(label) for label in self.classes],
            "model": self.model,
            "created": self.created,
            "info": self.info,
            "store": store,
            "scales": scales,
        }
        # One metadata key: safetensors writes several in random order, and equal contexts should be equal bytes.
        data = arrays_to_bytes(stored, {"crwn": to_json(record)})
        return data.replace(_EMPTY_CHECKSUM.encode(), hashlib.sha256(data).hexdigest().encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "these bytes") -> Context:
        """The context in `data`; `source` says in errors where the bytes came from.

        Raises:
            ContextError: damaged, truncated, of another format, or holding NaN or infinite numbers.
        """
        record = _read_record(data, source)
        blank = data.replace(str(record["checksum"]).encode(), _EMPTY_CHECKSUM.encode(), 1)
        found = hashlib.sha256(blank).hexdigest()
        if found != record["checksum"]:
            raise ContextError(
                f"{source} is damaged: checksum {found[:12]}..., expected {str(record['checksum'])[:12]}...: "
                "restore it from a copy or learn the task again"
            )
        try:
            scales = {str(key): float(scale) for key, scale in record["scales"].items()}
            tensors = {key: _unpack(t, scales.get(key, 1.0)) for key, t in tensors_from_bytes(data).items()}
            classes = tuple(decode_label(label) for label in record["classes"])
            model, created, info = record["model"], record["created"], record["info"]
            if not (isinstance(model, str) and isinstance(created, str) and isinstance(info, dict)):
                raise TypeError("model, created or info is of the wrong kind")
            return cls(record["name"], tensors, classes, model, created, info)
        except (ContextError, TaskError) as error:
            raise ContextError(f"{source} is refused: {error}") from None
        except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ContextError(f"{source} is not a context: {_one_line(error)}: export the context again") from None

    def save(self, path: str | Path, store: Store = "float32") -> None:
        """Write the context to a `.safetensors` file: all of it, or the file stays what it was."""
        path = Path(path)
        data = self.to_bytes(store)
        try:
            write_atomically(path, data)
        except OSError as error:
            raise ContextError(
                f'cannot write context for task "{self.name}" to {path}: {error.strerror or error}: '
                "free space or choose another place"
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Context:
        """The context in a file that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ContextError(f"cannot read context file {path}: {error.strerror or error}: check the path") from None
        return cls.from_bytes(data, source=f"context file {path}")


def stored_checksum(data: bytes) -> str:
    """The checksum that bytes made by `Context.to_bytes` carry (`Context.from_bytes` compares it with the bytes)."""
    start = data.find(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    return data[start : start + 64].decode("ascii", "replace")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves either the old file or the whole new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_model(context: Context, fingerprint: str, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """Refuse a context that another model learned, or whose tensors are not the ones this model takes."""
    if context.model != fingerprint:
        raise ContextError(
            f'context for task "{context.name}" was learned by model {context.model[:12]}..., '
            f"this model is {fingerprint[:12]}...: load the model it belongs to"
        )
    if shapes is not None:
        check_shapes(context, shapes)


def check_shapes(context: Context, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse a context whose tensors are not of these names and shapes."""
    missing, extra = sorted(shapes.keys() - context.tensors.keys()), sorted(context.tensors.keys() - shapes.keys())
    if missing or extra:
        raise ContextError(
            f'context for task "{context.name}" lacks {_short(missing)} and has {_short(extra)} too many: '
            "load the model it belongs to"
        )
    for key, tensor in context.tensors.items():
        if tuple(tensor.shape) != tuple(shapes[key]):
            raise ContextError(
                f'context for task "{context.name}" has {key} of shape {tuple(tensor.shape)}, '
                f"expected {tuple(shapes[key])}: load the model it belongs to"
            )


class ContextStack:
    """Contexts of one model as `[K, ...]` tensors: choosing a task is an index, a mixed batch is a gather.

    Args:
        shapes: name and shape of each tensor of one context.
        store: how rows are held: float32, float16, or int8 with a scale per row and tensor; given out as float32.
        capacity: rows to make room for at once; the room doubles when it is full.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], *, store: Store = "float32", capacity: int = 8) -> None:
        self.store = check_store(store)
        self.shapes = {key: tuple(shapes[key]) for key in sorted(shapes)}
        self._names: list[str] = []
        self._classes: list[tuple[Hashable, ...]] = []
        self._info: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}
        self._room = max(1, capacity)
        self._rows = {
            key: torch.zeros(self._room, *shape, dtype=_stored_dtype(key, len(shape), self.store))
            for key, shape in self.shapes.items()
        }
        self._scales = {key: torch.ones(self._room) for key, rows in self._rows.items() if rows.dtype == torch.int8}

    @classmethod
    def from_contexts(cls, contexts: Iterable[Context], *, store: Store = "float32") -> ContextStack:
        """A stack of these contexts in their order."""
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
        """Memory that the stack takes, room for growth included."""
        held = [*self._rows.values(), *self._scales.values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All rows, `[K, ...]` by name; without a copy where they are held as float32."""
        return {key: self._open(key, slice(0, len(self))) for key in self._rows}

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
            return torch.tensor([self.index(name) for name in names], dtype=torch.int64)  # says which is missing

    def classes(self, row: int) -> tuple[Hashable, ...]:
        """The label values of the task in this row."""
        return self._classes[self._checked(row)]

    def info(self, row: int) -> dict[str, Any]:
        """The facts kept with the task in this row."""
        return self._info[self._checked(row)]

    def row(self, row: int) -> dict[str, Tensor]:
        """One task's tensors by name."""
        at = self._checked(row)
        return {key: self._open(key, slice(at, at + 1))[0] for key in self._rows}

    def gather(self, positions: Tensor) -> dict[str, Tensor]:
        """The tensors of the tasks in these rows, `[B, ...]` by name."""
        return dict(self.lazily(positions))

    def lazily(self, positions: Tensor) -> Mapping[str, Tensor]:
        """The same, each gathered when it is asked for: fresh in the cache when a layer comes to use it."""
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < len(self):
            raise ContextError(
                f"rows {int(positions.min())} to {int(positions.max())} asked of a stack of {len(self)}: "
                "take them from index() or positions()"
            )
        return _Gathered(self, positions)

    def append(self, context: Context) -> int:
        """Add a task; gives its row."""
        if context.name in self._index:
            raise TaskError(f'task "{context.name}" is stacked already: replace it, or choose another name')
        check_shapes(context, self.shapes)
        if len(self) == self._room:
            self._grow()
        row = len(self)
        self._write(row, context)
        self._names.append(context.name)
        self._classes.append(context.classes)
        self._info.append(context.info)
        self._index[context.name] = row
        return row

    def replace(self, context: Context) -> int:
        """Put a task's new context in the place of its old one; gives its row."""
        row = self.index(context.name)
        check_shapes(context, self.shapes)
        self._write(row, context)
        self._classes[row] = context.classes
        self._info[row] = context.info
        return row

    def remove(self, name: str) -> None:
        """Take a task out; the last row moves into its place."""
        row, last = self.index(name), len(self) - 1
        if row != last:
            for held in (self._rows, self._scales):
                for rows in held.values():
                    rows[row] = rows[last]
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
        packed = {key: _pack(key, tensor, self.store) for key, tensor in context.tensors.items()}
        for key, (tensor, scale) in packed.items():
            self._rows[key][row] = tensor
            if key in self._scales:
                self._scales[key][row] = scale

    def _open(self, key: str, at: Tensor | slice) -> Tensor:
        # Copies whole rows, several times faster than indexing with a tensor.
        rows = self._rows[key][at] if isinstance(at, slice) else self._rows[key].index_select(0, at)
        if key in self._scales:
            return rows.float() * self._scales[key][at].view(-1, *[1] * (rows.ndim - 1))
        return rows.float()

    def _grow(self) -> None:
        for held in (self._rows, self._scales):
            for key, rows in held.items():
                held[key] = torch.cat([rows, torch.zeros_like(rows)])
        self._room *= 2


class _Gathered(Mapping[str, Tensor]):
    """Rows of a stack that is not changed meanwhile."""

    fresh = True  # every tensor is a copy that nobody else has: whoever asked may write over it

    def __init__(self, stack: ContextStack, positions: Tensor) -> None:
        self._stack = stack
        self._positions = positions

    def __getitem__(self, key: str) -> Tensor:
        return self._stack._open(key, self._positions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stack.shapes)

    def __len__(self) -> int:
        return len(self._stack.shapes)


def _stored_dtype(key: str, ndim: int, store: Store) -> torch.dtype:
    # Single numbers and batch-norm statistics cost next to nothing, and int8 would cost them their precision.
    if store == "int8" and (ndim == 0 or key.endswith(("running_mean", "running_var"))):
        return torch.float32
    return _DTYPES[store]


def _pack(key: str, tensor: Tensor, store: Store) -> tuple[Tensor, float]:
    """The tensor as it is stored, and its scale (1 unless int8)."""
    dtype = _stored_dtype(key, tensor.ndim, store)
    if dtype == torch.int8:
        scale = np.float32((tensor.abs().max().item() if tensor.numel() else 0.0) / 127)
        if float(scale) * 127 > torch.finfo(torch.float32).max:
            scale = np.nextafter(scale, np.float32(0))  # rounded up, the largest number would come back infinite
        if scale < torch.finfo(torch.float32).tiny:
            scale = np.float32(1)  # numbers that small are zero
        return torch.round(tensor / float(scale)).clamp(-127, 127).to(torch.int8), float(scale)
    if dtype == torch.float32:
        return tensor, 1.0
    packed = tensor.to(dtype)
    if not np.isfinite(packed.numpy()).all():
        raise ContextError(f'{key} holds {tensor.abs().max().item():g}, too large for float16: use store="float32"')
    return packed, 1.0


def _unpack(tensor: Tensor, scale: float) -> Tensor:
    if tensor.dtype not in _DTYPES.values():
        raise TypeError(f"tensor of {tensor.dtype}, expected one of {', '.join(STORES)}")
    return tensor.float() * scale if tensor.dtype == torch.int8 else tensor.float()


def _read_record(data: bytes, source: str) -> dict[str, Any]:
    """The JSON record in the header of a context's bytes, not yet compared with its checksum."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ContextError(f"{source} is truncated or not safetensors ({len(data)} bytes): restore it from a copy")
    try:
        record = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["crwn"])
        version, checksum = record["format"], record["checksum"]
        missing = {"name", "classes", "model", "created", "info", "store", "scales"} - record.keys()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ContextError(
            f"{source} has no readable crwn metadata: it is damaged, or not a context that crwn exported"
        ) from None
    if version != FORMAT:
        raise ContextError(f"{source} has format version {version!r:.20}, this crwn reads {FORMAT}: update crwn")
    if missing or not isinstance(checksum, str) or len(checksum) != 64 or not checksum.isascii():
        raise ContextError(f"{source} lacks metadata ({_short(sorted(missing) or ['checksum'])}): export it again")
    return dict(record)


def _plain_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is not JSON")


def plain_label(label: object, task: str) -> Hashable:
    """NumPy's scalars as Python's own; an error for labels that JSON could not bring back."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple):
        return tuple(plain_label(part, task) for part in label)
    if label is None or type(label) in (str, int, bool) or (type(label) is float and math.isfinite(label)):
        return label
    raise ContextError(
        f'class label {label!r:.40} of task "{task}" ({type(label).__name__}) cannot be kept: '
        "use text, whole or finite numbers, True, False, None, or tuples of these"
    )


def encode_label(label: Hashable) -> object:
    return {"tuple": [encode_label(part) for part in label]} if isinstance(label, tuple) else label


def decode_label(label: object) -> Hashable:
    if isinstance(label, dict):
        return tuple(decode_label(part) for part in label["tuple"])
    if isinstance(label, list):
        raise TypeError("a class label is a list")
    return label


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _short(values: Sequence[object]) -> str:
    shown = ", ".join(str(value) for value in values[:4]) or "none"
    return shown + (f" and {len(values) - 4} more" if len(values) > 4 else "")
