"""A context: all that one task learned, in memory, as bytes and as a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import save as arrays_to_bytes
from safetensors.torch import load as tensors_from_bytes
from torch import Tensor

from crwn._utils import write_whole
from crwn.contexts.dtype import Store, check_store, pack, unpack
from crwn.contexts.info import ContextInfo, to_json
from crwn.contexts.labels import decode_label, encode_label, plain_label
from crwn.contexts.names import check_name
from crwn.data.standardize import check_scaling
from crwn.errors import ContextError, TaskError

FORMAT = 1

_EMPTY_CHECKSUM = "0" * 64
_CHECKSUM_MARK = rb"{\"checksum\":\""  # as it is written in the header: JSON inside a JSON string


def now() -> str:
    """The current time as contexts record it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, eq=False, init=False)
class Context:
    """All that one task learned: tensors by the names of the model's parameters and buffers, classes, and facts.

    Args:
        name: the task's name.
        tensors: learned parameters and buffers by name; copied to float32 on the CPU.
        classes: label values in the order of the outputs: str, int, float, bool, None and tuples of these.
        model: fingerprint of the model it belongs to.
        created: time of learning, ISO 8601 in UTC; now by default.
        info: facts about the task: a `ContextInfo`, or a flat dictionary of values that JSON can represent.

    Raises:
        ContextError: NaN or infinite values, labels or facts that JSON cannot represent.
        TaskError: a name that is not allowed.
    """

    name: str
    tensors: dict[str, Tensor]
    classes: tuple[Hashable, ...]
    model: str
    created: str
    info: ContextInfo

    def __init__(
        self,
        name: str,
        tensors: Mapping[str, Tensor],
        classes: Sequence[Hashable],
        model: str,
        created: str | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        check_name(name)
        if not tensors:
            raise ContextError(f'context for task "{name}" has no tensors: it must hold what the task learned')
        kept = {}
        for key in sorted(tensors):
            tensor = tensors[key].detach().to(device="cpu", dtype=torch.float32, copy=True).contiguous()
            if not np.isfinite(tensor.numpy()).all():
                raise ContextError(
                    f'context for task "{name}" has NaN or infinite numbers in {key}: learn the task again'
                )
            kept[key] = tensor
        labels = tuple(plain_label(label, name) for label in classes)
        if len(set(labels)) != len(labels):
            raise ContextError(f'classes of task "{name}" repeat a label: {_short(labels)}: list each once')
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "tensors", kept)
        object.__setattr__(self, "classes", labels)
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "created", now() if created is None else created)
        object.__setattr__(self, "info", _checked_info({} if info is None else info, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.checksum)

    def __repr__(self) -> str:
        known = ""
        if self.info.accuracy is not None:
            known = f", {self.info.accuracy:.1f}% right on rows held out"
        elif self.info.training_accuracy is not None:
            known = f", {self.info.training_accuracy:.1f}% right on its own rows"
        return f"Context({self.name!r}, {len(self.classes)} classes, {self.params:,} parameters{known})"

    @property
    def params(self) -> int:
        """How many parameters the task learned, batch-norm statistics included."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    @property
    def numbers(self) -> int:
        """Deprecated name of `params`."""
        return self.params

    @property
    def checksum(self) -> str:
        """SHA-256 over everything: name, classes, tensors, model, created, info."""
        return stored_checksum(self.to_bytes())

    def to_bytes(self, store: Store = "float32") -> bytes:
        """Serialize to safetensors, with all but the tensors and a checksum over everything as JSON in the header.

        `store="int8"` adds one scale per tensor; scalars and batch-norm statistics stay float32.
        """
        check_store(store)
        stored, scales = {}, {}
        for key, tensor in self.tensors.items():
            packed, scale = pack(key, tensor, store)
            stored[key] = packed.numpy()  # safetensors' way with arrays is four times as fast as with tensors
            if packed.dtype == torch.int8:
                scales[key] = scale
        record = {
            # First, so that the first run of 64 zeros in the bytes is where the checksum is written.
            "checksum": _EMPTY_CHECKSUM,
            "format": FORMAT,
            "name": self.name,
            "classes": [encode_label(label) for label in self.classes],
            "model": self.model,
            "created": self.created,
            "info": dict(self.info),
            "store": store,
            "scales": scales,
        }
        # One metadata key: safetensors writes several in random order, and equal contexts should be equal bytes.
        data = arrays_to_bytes(stored, {"crwn": to_json(record)})
        return data.replace(_EMPTY_CHECKSUM.encode(), hashlib.sha256(data).hexdigest().encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "these bytes") -> Context:
        """Read what `to_bytes` wrote.

        Args:
            source: where the bytes come from, for error messages.

        Raises:
            ContextError: damaged, truncated, of another format, or with NaN or infinite values.
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
                raise TypeError("model, created or info is of the wrong type")
            to_json(info)  # raises for values that are not finite
            return cls(record["name"], tensors, classes, model, created, ContextInfo.from_stored(info))
        except (ContextError, TaskError) as error:
            raise ContextError(f"{source} is refused: {error}") from None
        except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ContextError(f"{source} is not a context: {_one_line(error)}: export the context again") from None

    def save(self, path: str | Path, store: Store = "float32") -> None:
        """Write the context to a `.safetensors` file; if that fails, an existing file is unchanged."""
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
        """Read a file that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ContextError(f"cannot read context file {path}: {error.strerror or error}: check the path") from None
        return cls.from_bytes(data, source=f"context file {path}")


def stored_checksum(data: bytes) -> str:
    """The checksum in the header of bytes that `Context.to_bytes` made; only `Context.from_bytes` verifies it."""
    start = data.find(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    return data[start : start + 64].decode("ascii", "replace")


def check_model(context: Context, fingerprint: str, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """Raise ContextError if the context belongs to another model, or its tensors are not of these names and shapes."""
    if context.model != fingerprint:
        raise ContextError(
            f'context for task "{context.name}" was learned by model {context.model[:12]}..., '
            f"this model is {fingerprint[:12]}...: load the model it belongs to"
        )
    if shapes is not None:
        check_shapes(context, shapes)


def check_shapes(context: Context, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise ContextError if the context's tensors are not of these names and shapes."""
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
    """The JSON record in the header of a context's bytes; its checksum is not verified."""
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


def _checked_info(given: Mapping[str, Any], task: str) -> ContextInfo:
    try:
        info = ContextInfo.from_mapping(given)
        len(info)  # a record made field by field is converted to JSON now
    except ContextError as error:
        raise ContextError(f'task "{task}": {error}') from None
    if "scaling" in info.user:
        check_scaling(info.user["scaling"], task)
    return info


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _short(values: Sequence[object]) -> str:
    shown = ", ".join(str(value) for value in values[:4]) or "none"
    return shown + (f" and {len(values) - 4} more" if len(values) > 4 else "")
