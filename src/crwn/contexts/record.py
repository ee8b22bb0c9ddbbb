"""The stored form of a context: safetensors bytes, with all but the tensors in one JSON record inside the header.

A bank reads hundreds of contexts for one batch, so nothing here builds an object per tensor: the part of the header
that describes the tensors is the same text for all contexts of a model, and its parsed form is cached.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from crwn.contexts.checks import LARGEST, check_facts, check_stamp, check_values, values_are_usable
from crwn.contexts.info import ContextInfo, to_json
from crwn.contexts.labels import encode_label, read_labels
from crwn.contexts.layout import FLOAT32, START, Layout, Signature, header_tail, parse_layout, read_layout
from crwn.contexts.names import check_name
from crwn.data.standardize import check_scaling
from crwn.errors import ContextError, TaskError

FORMAT = 1

Array = npt.NDArray[Any]

_BLANK = "0" * 64  # in the place of the checksum while it is computed
_BLANK_BYTES = _BLANK.encode()
_END = '}"},'  # of the record and of its string, in which every quote is escaped
_CHECKSUM_AT = 8 + len(START + r"{\"checksum\":\"")
_COMMON_LENGTH = 4096  # characters of classes and model that are remembered
_FIELDS = frozenset({"name", "classes", "model", "created", "info", "store", "scales"})


@dataclass(slots=True, eq=False)
class StoredContext:
    """A context as it was read, checked against its checksum; the tensors are views of the bytes."""

    name: str
    classes: tuple[Hashable, ...]
    model: str
    created: str
    info: ContextInfo
    checksum: str
    scales: Mapping[str, float]
    layout: Layout
    data: bytes
    start: int

    def arrays(self) -> dict[str, Array]:
        """The tensors by name, in their stored dtype, without a copy."""
        data, start = self.data, self.start
        return {
            key: np.frombuffer(data, dtype, (end - first) // dtype.itemsize, start + first).reshape(shape)
            for key, dtype, shape, first, end in self.layout.tensors
        }

    def values(self) -> Array | None:
        """All values one after another, sorted by name, if they are stored as float32; None otherwise."""
        return np.frombuffer(self.data, FLOAT32, offset=self.start) if self.layout.all_float32 else None


def write_record(
    parts: Sequence[Array],
    tensors: Signature,
    scales: Mapping[str, float],
    *,
    name: str,
    classes: str,
    model: str,
    created: str,
    info: str,
    store: str,
) -> tuple[bytes, str]:
    """The bytes of a context and their checksum.

    Args:
        parts: the tensors' values in their stored dtype, in the order of `tensors_order`, in any number of arrays.
        tensors: name, dtype and shape of each tensor.
        classes: JSON of the labels, as `labels_to_text` returns it.
        info: JSON of the facts.
    """
    # The checksum comes first, so that it is at the same place in all contexts.
    record = (
        f'{{"checksum":"{_BLANK}","format":{FORMAT},"name":{_quoted(name)},"classes":{classes},'
        f'"model":{_quoted(model)},"created":{_quoted(created)},"info":{info},"store":"{store}",'
        f'"scales":{to_json(dict(scales)) if scales else "{}"}}}'
    )
    text = record.replace("\\", "\\\\").replace('"', '\\"')  # all other characters of the record are ASCII
    header = f"{START}{text}{header_tail(tensors)[0]}".encode()
    header += b" " * (-len(header) % 8)
    head = len(header).to_bytes(8, "little") + header
    digest = sha256(head)
    for part in parts:
        digest.update(part.data)
    checksum = digest.hexdigest()
    pieces: list[Any] = [
        head[:_CHECKSUM_AT],
        checksum.encode(),
        head[_CHECKSUM_AT + 64 :],
        *(part.data for part in parts),
    ]
    return b"".join(pieces), checksum


def labels_to_text(labels: Sequence[Hashable]) -> str:
    """JSON of the class labels."""
    if set(map(type, labels)) <= {int, str}:
        return _plain_labels_to_text(tuple(labels))
    return to_json([encode_label(label) for label in labels])


@lru_cache(maxsize=256)
def _plain_labels_to_text(labels: tuple[Hashable, ...]) -> str:
    """Cached: tasks of one model often have the same labels."""
    return to_json(list(labels))


def read_record(data: bytes, *, source: str) -> StoredContext:
    """Check and read the bytes of a context.

    Args:
        source: where the bytes come from, for error messages.

    Raises:
        ContextError: damaged, truncated, of another format, or with something that a context may not hold.
    """
    record, layout, start = _read_header(data, source)
    checksum = record["checksum"]
    written = checksum.encode()
    at = _CHECKSUM_AT if data.startswith(written, _CHECKSUM_AT) else data.find(written)
    digest = sha256(data[:at])
    digest.update(_BLANK_BYTES)
    digest.update(memoryview(data)[at + 64 :])
    if (found := digest.hexdigest()) != checksum:
        raise ContextError(
            f"{source} is damaged: checksum {found[:12]}..., expected {checksum[:12]}...: "
            "restore it from a copy or learn the task again"
        )
    try:
        return _checked(record, read_layout(layout) if isinstance(layout, str) else layout, data, start)
    except (ContextError, TaskError) as error:
        raise ContextError(f"{source} is refused: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise ContextError(f"{source} is not a context: {text}: export the context again") from None


def _checked(record: dict[str, Any], layout: Layout, data: bytes, start: int) -> StoredContext:
    if len(data) - start != layout.size:
        raise ValueError(f"{len(data) - start} bytes of tensors, expected {layout.size}")
    name = check_name(record["name"])
    info = record["info"]
    if not isinstance(info, dict):
        raise TypeError("info is of the wrong type")
    check_facts(info)
    scales = record["scales"]
    if scales:
        scales = {str(key): float(scale) for key, scale in scales.items()}
        if not all(0 < scale <= LARGEST for scale in scales.values()):
            raise ContextError(f"scales {str(scales)[:60]} must be positive and at most {LARGEST:g}")
    facts = ContextInfo.from_stored(info)
    if "scaling" in info:
        check_scaling(facts.user.get("scaling", facts.scaling), name)
    classes, model = record["classes"], record["model"]
    if type(classes) is not tuple:  # JSON has no tuples: those come from `_read_common`, which checked both
        classes, model = read_labels(classes, name), check_stamp(model, "model")
    stored = StoredContext(
        name,
        classes,
        model,
        check_stamp(record["created"], "created"),
        facts,
        record["checksum"],
        scales,
        layout,
        data,
        start,
    )
    values = stored.values()
    if values is None or not values_are_usable(values):
        for key, array in stored.arrays().items():
            if array.dtype != np.int8:
                check_values(name, key, array)
    return stored


def _read_header(data: bytes, source: str) -> tuple[dict[str, Any], str | Layout, int]:
    """The record, the description of the tensors (text where it can be cached), and where the tensors begin."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ContextError(f"{source} is truncated or not safetensors ({len(data)} bytes): restore it from a copy")
    layout: str | Layout
    try:
        header = data[8 : 8 + length].decode()
        text, closing, rest = header.partition(_END)
        text = text[len(START) :].replace('\\"', '"')
        if closing and "\\" not in text and header.startswith(START):
            # Only quotes are escaped, and all of them: the first one that is not ends the record.
            record, layout = _decode_alike(text + "}"), "}," + rest.rstrip(" ")
        else:
            text, layout = _split_header(header)
            record = _decode(text)
        version, checksum = record["format"], record["checksum"]
        complete = record.keys() >= _FIELDS
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ContextError(
            f"{source} has no readable crwn metadata: it is damaged, or not a context that crwn exported"
        ) from None
    if version != FORMAT:
        raise ContextError(f"{source} has format version {version!r:.20}, this crwn reads {FORMAT}: update crwn")
    if not complete or not isinstance(checksum, str) or len(checksum) != 64 or not checksum.isascii():
        lacking = ", ".join(sorted(_FIELDS - record.keys())[:4]) or "checksum"
        raise ContextError(f"{source} lacks metadata ({lacking}): export it again")
    return record, layout, 8 + length


def _split_header(header: str) -> tuple[str, str | Layout]:
    """The record of any header, and the description of its tensors."""
    if header.startswith(START):
        text, end = _json.raw_decode(header, len(START) - 1)
        layout = header[end:].rstrip(" ")
        if layout.startswith("},"):
            return text, layout
    entries = json.loads(header)  # written by another program
    return entries.pop("__metadata__")["crwn"], parse_layout(entries)


def _decode_alike(text: str) -> Any:
    """The value of a record without escapes; classes, which tasks of a model often share, are a checked tuple.

    A quote in such a text begins or ends a string, so that what is found here are keys. The part between them has no
    other keys than these two, or the whole record is decoded.
    """
    head, first, rest = text.partition(',"classes":')
    common, second, tail = rest.partition(',"created":')
    if second and first and len(common) <= _COMMON_LENGTH:
        try:
            classes, model = _read_common(common)
            record = _decode(head + second + tail)
        except (ContextError, KeyError, TypeError, ValueError):  # with a better message below, or for good reason
            return _decode(text)
        if "classes" not in record and "model" not in record:
            record["classes"], record["model"] = classes, model
            return record
    return _decode(text)


@lru_cache(maxsize=256)
def _read_common(text: str) -> tuple[tuple[Hashable, ...], str]:
    """Checked labels and the model of a text such as `[0,1],"model":"3f9c..."`."""
    found = _decode(f'{{"classes":{text}}}')
    if found.keys() != {"classes", "model"}:
        raise ValueError("other keys")
    return read_labels(found["classes"], ""), check_stamp(found["model"], "model")


def _decode(text: str) -> Any:
    """The value of a JSON text."""
    found, end = _json.raw_decode(text)  # `decode` would first search for white space around the text
    return found if end == len(text) else _json.decode(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_json = json.JSONDecoder(parse_constant=_refuse_constant)
