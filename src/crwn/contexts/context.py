"""What one task learned, and the same as bytes or a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import save as arrays_to_bytes
from safetensors.torch import load as tensors_from_bytes
from torch import Tensor

from crwn.context.labels import decode_label, encode_label, plain_label
from crwn.context.stores import Store, check_store, pack, unpack
from crwn.errors import ContextError, TaskError
from crwn.files import write_whole

FORMAT = 1
LONGEST_NAME = 200

_ACCURACIES = (("accuracy", "right on rows held out"), ("training_accuracy", "right on its own rows"))

to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_EMPTY_CHECKSUM = "0" * 64
_CHECKSUM_MARK = rb"{\"checksum\":\""  # as it stands in the header: JSON inside a JSON string
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

    def __repr__(self) -> str:
        """One line: what it holds is thousands of numbers."""
        told = ((self.info.get(key), of) for key, of in _ACCURACIES)
        known = next((f", {value:.1f}% {of}" for value, of in told if isinstance(value, int | float)), "")
        return f"Context({self.name!r}, {len(self.classes)} classes, {self.numbers:,} numbers{known})"

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
            packed, scale = pack(key, tensor, store)
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
            tensors = {key: unpack(t, scales.get(key, 1.0)) for key, t in tensors_from_bytes(data).items()}
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
            write_whole(path, data)
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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _short(values: Sequence[object]) -> str:
    shown = ", ".join(str(value) for value in values[:4]) or "none"
    return shown + (f" and {len(values) - 4} more" if len(values) > 4 else "")
