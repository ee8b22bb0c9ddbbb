"""Statistics as a file: the lower triangle and the smaller sums as safetensors, everything else as JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from crwn._utils import write_whole
from crwn.contexts.labels import decode_label, encode_label
from crwn.data.standardize import read_scaling
from crwn.errors import ContextError
from crwn.training.exact.solve import AnyArray
from crwn.training.exact.statistics import Array, Statistics

FORMAT = 1


def to_bytes(statistics: Statistics, **more: AnyArray) -> bytes:
    """Serialize, with more arrays beside the sums; equal statistics give equal bytes."""
    record = {
        "format": FORMAT,
        "model": statistics.model,
        "below": statistics.below,
        "classes": [encode_label(label) for label in statistics.classes],
        "scaling": statistics.scaling,
        "precision": statistics.precision,
    }
    arrays = {
        "gram": lower_triangle(statistics.gram),
        "products": np.ascontiguousarray(statistics.products),
        "weights": statistics.weights,
        "counts": statistics.counts,
        **{name: np.ascontiguousarray(array) for name, array in more.items()},
    }
    return bytes(save(arrays, {"crwn_statistics": json.dumps(record, sort_keys=True)}))


def from_bytes(data: bytes, *, source: str = "these bytes") -> Statistics:
    """Read what `to_bytes` wrote.

    Raises:
        ContextError: damaged, truncated or of another format.
    """
    try:
        length = int.from_bytes(data[:8], "little")
        record: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["crwn_statistics"])
        if record["format"] != FORMAT:
            raise ContextError(f"{source} has format {record['format']!r:.20}, this crwn reads {FORMAT}: update crwn")
        arrays = load(data)
        classes = tuple(decode_label(label) for label in record["classes"])
        scaling = read_scaling(record["scaling"])
        products, counts = arrays["products"], arrays["counts"]
        if scaling is None or products.shape[1] != len(classes) or counts.shape != (len(classes),):
            raise ValueError("its parts do not belong together")
        sums = (square(arrays["gram"], len(products)), products, arrays["weights"], counts)
        if not all(np.isfinite(one).all() for one in sums):
            raise ValueError("it has NaN or infinite sums")
        return Statistics(record["model"], record["below"], classes, scaling, record["precision"], *sums)
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        why = " ".join(str(error).split())[:120]
        raise ContextError(f"{source} is damaged or not statistics ({why}): compute them again from the rows") from None


def write(statistics: Statistics, path: Path) -> None:
    """Write a file; if that fails, an existing file is unchanged."""
    try:
        write_whole(path, to_bytes(statistics))
    except OSError as error:
        raise ContextError(
            f"cannot write statistics of {statistics.nbytes:,} bytes to {path}: {error.strerror or error}: "
            "free space or choose another place"
        ) from None


def read(path: Path) -> Statistics:
    """Read a file that `write` wrote."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContextError(f"cannot read statistics {path}: {error.strerror or error}: check the path") from None
    return from_bytes(data, source=f"statistics file {path}")


def digest(data: bytes) -> str:
    """The name of a statistics file: SHA-256 of its bytes."""
    return hashlib.sha256(data).hexdigest()


def lower_triangle(gram: Array) -> Array:
    """The rows of the lower triangle after one another."""
    width = len(gram)
    flat = np.empty(width * (width + 1) // 2)
    start = 0
    for row in range(width):
        flat[start : start + row + 1] = gram[row, : row + 1]
        start += row + 1
    return flat


def square(flat: Array, width: int) -> Array:
    """The matrix of `lower_triangle`, zero above the diagonal."""
    if flat.shape != (width * (width + 1) // 2,):
        raise ValueError(f"{flat.size} entries are not the triangle of {width} features")
    gram = np.zeros((width, width))
    start = 0
    for row in range(width):
        gram[row, : row + 1] = flat[start : start + row + 1]
        start += row + 1
    return gram
