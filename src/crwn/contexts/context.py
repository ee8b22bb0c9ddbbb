"""A context: all that one task learned, in memory, as bytes and as a file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crwn._utils import free_memory, write_whole
from crwn.contexts.checks import check_labels, check_stamp, check_values, values_are_usable
from crwn.contexts.dtype import Store, check_store, pack, unpack
from crwn.contexts.info import ContextInfo
from crwn.contexts.layout import Signature, tensors_order
from crwn.contexts.names import check_name
from crwn.contexts.record import Array, StoredContext, labels_to_text, read_record, write_record
from crwn.data.standardize import check_scaling
from crwn.errors import ContextError

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
        keys = sorted(tensors)
        # One copy, of which the tensors are parts: a bank writes it as it is.
        flat = torch.cat([tensors[key].detach().to(device="cpu", dtype=torch.float32).reshape(-1) for key in keys])
        values = flat.numpy()
        shapes = [(key, tuple(tensors[key].shape)) for key in keys]
        parts = _parts(flat, shapes)
        if not values_are_usable(values):
            for key, part in parts.items():
                check_values(name, key, part.numpy())
        self.__dict__.update(
            name=name,
            tensors=parts,
            classes=check_labels(classes, name),
            model=check_stamp(model, "model"),
            created=now() if created is None else check_stamp(created, "created"),
            info=_checked_info({} if info is None else info, name),
            _whole=(values, dict(parts), tuple((key, "f", shape) for key, shape in shapes)),
        )

    def __getattr__(self, name: str) -> Any:
        """Make the tensors of a context that was read, at their first use."""
        if name != "tensors" or "_stored" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__["tensors"] = tensors = _tensors(self.__dict__["_stored"])
        return tensors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.tensors, self.classes, self.model, self.created, self.info)

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
        return sum(map(Tensor.numel, self.tensors.values()))

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
        return self.stored_as(store, labels_to_text(self.classes), self.info.to_json())[0]

    def stored_as(self, store: Store, classes: str, info: str) -> tuple[bytes, str]:
        """The bytes and their checksum, with the JSON of classes and info, which a bank also stores by themselves."""
        parts, tensors, scales = self._packed(check_store(store))
        facts = {"name": self.name, "classes": classes, "model": self.model, "created": self.created, "info": info}
        return write_record(parts, tensors, scales, store=store, **facts)

    def _packed(self, store: Store) -> tuple[list[Array], Signature, dict[str, float]]:
        """The values in their stored dtype and order, the tensors they are of, and the scales of int8."""
        if store == "float32" and "_whole" in self.__dict__:
            values, parts, signature = self.__dict__["_whole"]
            # The caller may have put other tensors into the dictionary.
            if self.tensors.keys() == parts.keys() and all(map(is_, self.tensors.values(), parts.values())):
                return [values], signature, {}
        arrays, scales = {}, {}
        for key, tensor in self.tensors.items():
            packed, scale = pack(key, tensor, store)
            arrays[key] = np.ascontiguousarray(packed.numpy())
            if packed.dtype == torch.int8:
                scales[key] = scale
        shapes = tuple((key, array.dtype.char, tuple(self.tensors[key].shape)) for key, array in arrays.items())
        return [arrays[key] for key in tensors_order(shapes)], shapes, scales

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "these bytes") -> Context:
        """Read what `to_bytes` wrote.

        Args:
            source: where the bytes come from, for error messages.

        Raises:
            ContextError: damaged, truncated, of another format, or with something that a context may not hold.
        """
        return cls.from_stored(read_record(data, source=source))

    @classmethod
    def from_stored(cls, stored: StoredContext) -> Context:
        """The context of a record that `read_record` has checked; its tensors are copied when they are first used."""
        context = cls.__new__(cls)
        context.__dict__.update(
            name=stored.name,
            classes=stored.classes,
            model=stored.model,
            created=stored.created,
            info=stored.info,
            _stored=stored,
        )
        return context

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
            size, free = Path(path).stat().st_size, free_memory()
            if free is not None and size > free:
                raise ContextError(f"context file {path} has {size:,} bytes, {free:,} are free: it is no context")
            data = Path(path).read_bytes()
        except OSError as error:
            raise ContextError(f"cannot read context file {path}: {error.strerror or error}: check the path") from None
        return cls.from_bytes(data, source=f"context file {path}")


def _tensors(stored: StoredContext) -> dict[str, Tensor]:
    """The tensors of a record, copied to float32."""
    values = stored.values()
    if values is not None:
        return _parts(torch.from_numpy(values.copy()), [(key, shape) for key, _, shape, _, _ in stored.layout.tensors])
    scales = stored.scales
    arrays = stored.arrays()
    return {key: unpack(torch.from_numpy(array.copy()), scales.get(key, 1.0)) for key, array in arrays.items()}


def _parts(flat: Tensor, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Tensor]:
    """Split one vector into tensors of these names and shapes, which share its memory."""
    parts = torch.split(flat, [math.prod(shape) for _, shape in shapes])
    return {
        key: part if len(shape) == 1 else part.view(shape) for (key, shape), part in zip(shapes, parts, strict=True)
    }


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


def _checked_info(given: Mapping[str, Any], task: str) -> ContextInfo:
    try:
        info = ContextInfo.from_mapping(given)
        len(info)  # a record made field by field is converted to JSON and checked now
    except ContextError as error:
        raise ContextError(f'task "{task}": {error}') from None
    check_scaling(info.user.get("scaling", info.scaling), task)
    return info


def _short(values: Sequence[object]) -> str:
    shown = ", ".join(str(value) for value in values[:4]) or "none"
    return shown + (f" and {len(values) - 4} more" if len(values) > 4 else "")
