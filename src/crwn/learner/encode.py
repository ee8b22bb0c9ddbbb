"""Rows encoded as numbers with what a context stores: tables by column name, images by their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crwn.contexts.bank import ResidentStack
from crwn.contexts.info import ContextInfo, to_json
from crwn.contexts.kinds import Kind
from crwn.data.dataset import Rows
from crwn.data.image_set import Array
from crwn.data.images import ImageFiles
from crwn.data.inputs import rows_of
from crwn.data.tables import (
    Table,
    TableEncoding,
    is_frame,
    is_texts,
    labels_of,
    learn_encoding,
    table_of,
    table_of_texts,
)
from crwn.data.tables.columns import NumberColumn
from crwn.errors import DataError
from crwn.learner.ranking import TaskScore

Encodable = Table | ImageFiles
Rank = Callable[[Array, Sequence[str], bool], list[TaskScore]]  # the last: whether these are all tasks to rank


def encodable(x: Any) -> Encodable | None:
    """The table or images that a caller passed: a frame of pandas, polars or pyarrow, texts, or a reader of crwn's."""
    if isinstance(x, Table | ImageFiles):
        return x
    if is_texts(x):
        return table_of_texts(x)
    return table_of(x) if is_frame(x) else None


def given_rows(x: Any, shape: Sequence[int] | None) -> Rows | Encodable:
    """What a caller passed to predict: a table or images, or anything else as checked `Rows`."""
    found = encodable(x)
    return rows_of(x, shape=shape) if found is None else found


def encode_to_learn(
    x: Encodable,
    y: Any,
    *,
    shape: Sequence[int] | None,
    known: ContextInfo | None = None,
    kind: Kind = "classification",
) -> tuple[Array, Any, dict[str, Any]]:
    """Inputs and labels of the rows that a task learns from, and the facts its context needs to encode other rows.

    Args:
        y: labels, or the name of the table's column that has them; None for its column of labels.
        shape: of one model input; None where it is not known yet.
        known: facts of a task that is resumed, which encode the rows.
        kind: of the task; the cells of a multilabel task's column may have several labels or none.
    """
    width = None if shape is None else int(np.prod(shape))
    if isinstance(x, ImageFiles):
        wanted = None if known is None else known.image
        if wanted is None and shape is not None and len(shape) == 3:
            wanted = tuple(shape)
        images = x.decode(wanted)
        return images, y, {"image": list(images.shape[1:])}
    if isinstance(y, str):
        x, y = replace(x, label=y), None
    encoding = (None if known is None else encoding_of(known)) or learn_encoding(x, most=width)
    if shape is not None and len(shape) > 1 and encoding.width != width:
        raise DataError(
            f"{x.source} makes {encoding.width:,} inputs of its columns, and this model takes images of shape "
            f"{tuple(shape)}: learn tables in a model of their own"
        )
    labels = labels_of(x, encoding.label, several=kind == "multilabel") if y is None else y
    facts: dict[str, Any] = {"columns": list(encoding.names)}
    if not encoding.plain or encoding.label != "label" or encoding.ignored:
        facts["encoding"] = encoding.record()
    return encoding.apply(x, width), labels, facts


def encode_validation(
    validation: Any, facts: Mapping[str, Any], shape: Sequence[int] | None, *, kind: Kind = "classification"
) -> Any:
    """Separate validation data `(x, y)` encoded like the training rows; anything else as it is."""
    if not (isinstance(validation, tuple | list) and len(validation) == 2):
        return validation
    x, y = validation
    given = encodable(x)
    if given is None:
        return validation
    info = ContextInfo.from_mapping(facts)
    encoding = encoding_of(info)
    if isinstance(given, Table) and encoding is not None and (y is None or isinstance(y, str)):
        y = labels_of(given, y or encoding.label, several=kind == "multilabel")
    return encode_for(given, info, shape), y


def encoding_of(info: ContextInfo) -> TableEncoding | None:
    """The encoding of a task's columns; None for a task that was learned without column names."""
    if info.encoding is not None:
        return info.encoding
    return None if info.columns is None else TableEncoding(tuple(NumberColumn(name) for name in info.columns))


def encode_for(x: Encodable, info: ContextInfo, shape: Sequence[int] | None) -> Array:
    """The rows encoded with the columns or the image size of a task."""
    if isinstance(x, ImageFiles):
        return x.decode(info.image or (shape if shape is not None and len(shape) == 3 else None))
    encoding = encoding_of(info)
    if encoding is not None:
        return encoding.apply(x, None if shape is None else int(np.prod(shape)))
    found = learn_encoding(x)
    if not found.plain:
        other = next(column for column in found.columns if column != NumberColumn(column.name))
        raise DataError(
            f"column {other.name!r} of {x.source} is not only numbers, and the task was learned without column names: "
            "give numbers"
        )
    return found.apply(x)


def encode_for_tasks(
    x: Encodable, tasks: str | Sequence[str], resident: ResidentStack, shape: Sequence[int] | None
) -> Array:
    """The rows as their task takes them, or as the task of each row does."""
    if isinstance(tasks, str):
        return encode_for(x, resident.facts([tasks])[tasks].info, shape)
    if len(tasks) != len(x):
        raise DataError(f"{len(x)} rows but {len(tasks)} task names: give one name, or one for each row")
    out: Array | None = None
    for name in dict.fromkeys(tasks):
        at = [row for row, task in enumerate(tasks) if task == name]
        part = encode_for(x.select(at), resident.facts([name])[name].info, shape)
        if out is None:
            out = np.zeros((len(tasks), *part.shape[1:]), dtype=part.dtype)
        if part.shape[1:] != out.shape[1:]:
            raise DataError(f"rows of task {name!r} have shape {part.shape[1:]}, those of others {out.shape[1:]}")
        out[at] = part
    return np.zeros((0, 1), dtype=np.float32) if out is None else out


def rank_encodable(
    x: Encodable, infos: Mapping[str, ContextInfo], shape: Sequence[int] | None, rank: Rank
) -> list[TaskScore]:
    """Tasks ranked for these rows as a group, each with the rows as it takes them.

    Tasks whose columns the table does not have cannot be the one, unless none fits: then the difference is raised.
    Only tasks of one class per row can be ranked, so others are left out where there are any of that kind.
    """
    infos = {name: info for name, info in infos.items() if info.kind == "classification"} or infos
    groups: dict[str, list[str]] = {}
    for name, info in infos.items():
        key = to_json([info.get("columns"), info.get("encoding")] if isinstance(x, Table) else info.get("image"))
        groups.setdefault(key, []).append(name)
    fitting = [names for names in groups.values() if _fits(x, infos[names[0]])]
    if not fitting:
        encode_for(x, next(iter(infos.values())), shape)  # raises with the difference
    together = len(fitting) == 1
    ranked = [rank(encode_for(x, infos[names[0]], shape), names, together) for names in fitting]
    if len(ranked) == 1:
        return ranked[0]
    return sorted((one for part in ranked for one in part), key=lambda one: -one.score)


def _fits(x: Encodable, info: ContextInfo) -> bool:
    """Whether a task can take these rows; one that was learned without column names takes any numbers."""
    if isinstance(x, ImageFiles):
        return True
    encoding = encoding_of(info)
    return learn_encoding(x).plain if encoding is None else encoding.fits(x.names)
