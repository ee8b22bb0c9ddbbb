"""Where the tensors of a stored context are: the part of its safetensors header that all contexts of a model share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from safetensors.numpy import save

from crwn.errors import ContextError

Signature = tuple[tuple[str, str, tuple[int, ...]], ...]  # name, NumPy's character of the dtype, shape

_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "I8": np.dtype(np.int8),
}
FLOAT32 = _DTYPES["F32"]
START = '{"__metadata__":{"crwn":"'  # of every header; the record follows as a JSON string


@dataclass(frozen=True)
class Layout:
    """Where each tensor is in the bytes after the header: name, dtype, shape, first byte and end; sorted by name."""

    tensors: tuple[tuple[str, np.dtype[Any], tuple[int, ...], int, int], ...]
    size: int
    all_float32: bool


def tensors_order(tensors: Signature) -> tuple[str, ...]:
    """The order in which safetensors writes these tensors: by name, if they have one dtype."""
    return header_tail(tensors)[1]


@lru_cache(maxsize=64)
def header_tail(tensors: Signature) -> tuple[str, tuple[str, ...]]:
    """The header after the record, as safetensors writes it for these tensors, and the order of their bytes."""
    data = save({key: np.zeros(shape, dtype) for key, dtype, shape in tensors}, {"crwn": ""})
    header = data[8 : 8 + int.from_bytes(data[:8], "little")].decode()
    entries = json.loads(header)
    del entries["__metadata__"]
    order = sorted(entries, key=lambda key: (entries[key]["data_offsets"], key))
    return header[len(START) :].rstrip(" "), tuple(order)


def layout_of(tensors: Signature) -> Layout:
    """Where these tensors are in a stored context."""
    return read_layout(header_tail(tensors)[0].removeprefix('"'))


@lru_cache(maxsize=64)
def read_layout(tail: str) -> Layout:
    """The layout in the rest of a header: `},"v":{"dtype":"F32",...},...}`."""
    return parse_layout(json.loads("{" + tail[2:]))


def parse_layout(entries: dict[str, Any]) -> Layout:
    """Check that the tensors' bytes follow one another without gaps."""
    tensors, end_before = [], 0
    for key, entry in sorted(entries.items(), key=lambda one: (one[1]["data_offsets"], one[0])):
        shape, (first, end) = tuple(entry["shape"]), entry["data_offsets"]
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise TypeError(f"tensor of dtype {entry['dtype']!r:.20}, expected one of {', '.join(_DTYPES)}")
        if not all(type(size) is int and size >= 0 for size in (*shape, first, end)):
            raise ValueError(f"the shape or place of {key!r:.40} is not made of counts")
        values = 1
        for size in shape:
            values *= size
        if first != end_before or end - first != values * dtype.itemsize:
            raise ValueError(f"the bytes of {key!r:.40} are not where they should be")
        tensors.append((key, dtype, shape, first, end))
        end_before = end
    if not tensors:
        raise ContextError("it has no tensors: it must hold what the task learned")
    in_order = sorted(tensors)
    return Layout(tuple(in_order), end_before, in_order == tensors and all(one[1] == FLOAT32 for one in tensors))
