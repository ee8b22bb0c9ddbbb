"""What a context records about its task beside the learned tensors: a typed record, stored as one flat JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from crwn.contexts.checks import check_facts
from crwn.contexts.kinds import Kind, read_kind
from crwn.data.standardize import NO_SCALING, Scaling, read_scaling
from crwn.data.tables.encoding import TableEncoding, read_encoding
from crwn.errors import ConfigError, ContextError

to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, eq=False, repr=False)
class ContextInfo(Mapping[str, Any]):
    """Facts about one task. All are optional: a field at its default is not stored.

    The record is also a read-only mapping of its stored form, `info["rows"]`: the fields' names and the user's keys
    beside each other. A stored value that does not have its field's type leaves the field at its default and appears
    in `user` instead.

    Args:
        rows: training samples.
        batches: training steps.
        loss: training loss at the end.
        seconds: training time.
        scaling: mean and deviation that inputs are standardized with.
        own_entropy: mean and deviation of the output entropy on the task's own samples (`fit_of` reads it).
        sketch: projected mean of the task's own samples (`crwn.contexts.sketch`).
        density: what the task's own samples look like (`crwn.contexts.density`).
        accuracy: percent correct on held-out samples; of a multilabel task, percent of its labels that are correct.
        training_accuracy: the same on training samples, where none were held out.
        majority: percent correct of always answering the commonest class, on the same samples.
        balanced_accuracy: mean of the percents correct of every class, on the same samples.
        r2, rmse: of a regression, on the same samples: share of the variance explained, and root mean squared error.
        held_out: the number of held-out samples that these were measured on.
        kind: "multilabel" or "regression"; nothing for classification.
        target_scaling: mean and deviation of the numbers that a regression predicts.
        factors: what makes the task differ from others, such as `{"angle": 10.0}`.
        columns: names of the table's columns in the order of the inputs.
        encoding: how the columns become inputs, where they are not all numbers without gaps.
        image: shape of the images that the task learned from, `(H, W)` or `(3, H, W)`; others are resized to it.
        exact: how the closed form was computed: ridge, its cross-validation, the statistics it keeps, rows removed.
        privacy: the guarantee of a task learned with differential privacy: epsilon, delta, noise, sample rate.
        user: the user's facts.

    >>> info = ContextInfo(rows=200, user={"site": "north"})
    >>> info.rows, info["site"], dict(info)
    (200, 'north', {'site': 'north', 'rows': 200})
    """

    rows: int | None = None
    batches: int | None = None
    loss: float | None = None
    seconds: float | None = None
    scaling: Scaling = NO_SCALING
    own_entropy: Mapping[str, Any] | None = None
    sketch: Mapping[str, Any] | None = None
    density: Mapping[str, Any] | None = None
    accuracy: float | None = None
    training_accuracy: float | None = None
    majority: float | None = None
    balanced_accuracy: float | None = None
    r2: float | None = None
    rmse: float | None = None
    held_out: int | None = None
    kind: Kind = "classification"
    target_scaling: Scaling = NO_SCALING
    factors: Mapping[str, float | int | str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    encoding: TableEncoding | None = None
    image: tuple[int, ...] | None = None
    exact: Mapping[str, Any] | None = None
    privacy: Mapping[str, Any] | None = None
    user: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _READERS.keys().isdisjoint(self.user):
            _refuse([key for key in self.user if key in _READERS and _READERS[key](self.user[key]) is not None])

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ContextInfo:
        """The record of a flat mapping made by the caller, its values converted to plain JSON ones.

        Raises:
            ContextError: a value that JSON cannot represent.
        """
        return values if isinstance(values, ContextInfo) else cls.from_stored(_plain(values))

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> ContextInfo:
        """The record of a flat dictionary decoded from JSON, which is kept and written again as it is."""
        user: dict[str, Any] = {}
        # Listing a bank makes thousands of these: writing to __dict__ takes half as long as a frozen __init__, and
        # fields without a value have their default from the class.
        info = cls.__new__(cls)
        fields = info.__dict__
        fields.update(factors={}, user=user, _stored=stored)
        for key, value in stored.items():
            read = _READERS.get(key)
            if read is None:
                user[key] = value
            elif value is not None:
                found = read(value)
                if found is None:
                    user[key] = value
                else:
                    fields[key] = found
        return info

    @classmethod
    def from_user(cls, facts: Mapping[str, Any] | None, resumed: ContextInfo | None = None) -> ContextInfo:
        """The user's facts for a task about to be learned, added to those of the context that learning resumes.

        Raises:
            ConfigError: a fact named like one that learning measures.
        """
        _refuse([key for key in facts or {} if key in MEASURED])
        before = {} if resumed is None else {key: value for key, value in resumed.items() if key not in MEASURED}
        return cls.from_mapping(before | dict(facts or {}))

    @cached_property
    def _stored(self) -> dict[str, Any]:
        values = {key: getattr(self, key) for key in _READERS}
        return _plain({**self.user, **{key: value for key, value in values.items() if value != _UNSET.get(key)}})

    def to_json(self) -> str:
        """The stored form as JSON."""
        return to_json(self._stored)

    def __getitem__(self, key: str) -> Any:
        return self._stored[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return f"ContextInfo({self._stored})"


def _count(value: object) -> int | None:
    return value if type(value) is int else None


def _number(value: object) -> float | None:
    return value if type(value) is float or type(value) is int else None


def _mapping(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _factors(value: object) -> dict[str, float | int | str] | None:
    if isinstance(value, dict) and all(isinstance(one, int | float | str) for one in value.values()):
        return value
    return None


def _columns(value: object) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value) else None


def _image(value: object) -> tuple[int, ...] | None:
    sides = value if isinstance(value, list | tuple) and len(value) in (2, 3) else ()
    return tuple(sides) if sides and all(type(side) is int and side > 0 for side in sides) else None


# Field -> what reads its stored value; None where the value is not of the field's type.
_READERS: dict[str, Callable[[object], Any]] = {
    "rows": _count,
    "batches": _count,
    "loss": _number,
    "seconds": _number,
    "scaling": read_scaling,
    "own_entropy": _mapping,
    "sketch": _mapping,
    "density": _mapping,
    "accuracy": _number,
    "training_accuracy": _number,
    "majority": _number,
    "balanced_accuracy": _number,
    "r2": _number,
    "rmse": _number,
    "held_out": _count,
    "kind": read_kind,
    "target_scaling": read_scaling,
    "factors": _factors,
    "columns": _columns,
    "encoding": read_encoding,
    "image": _image,
    "exact": _mapping,
    "privacy": _mapping,
}
# Values that are not stored; None for all other fields.
_UNSET: dict[str, object] = {
    "scaling": NO_SCALING,
    "factors": {},
    "kind": "classification",
    "target_scaling": NO_SCALING,
}
# Fields that learning sets itself.
MEASURED = frozenset(_READERS) - {"factors", "columns", "encoding", "image"}


def _refuse(names: list[str]) -> None:
    if names:
        raise ConfigError(f"info cannot hold {', '.join(sorted(names))}: the context keeps its own")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping after a round trip through JSON: tuples are lists, NumPy scalars are Python numbers."""
    try:
        plain = dict(json.loads(json.dumps(dict(values), default=_plain_number, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ContextError(f"info does not survive JSON: {error}: use plain values") from None
    check_facts(plain)
    return plain


def _plain_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, TableEncoding):
        return value.record()
    raise TypeError(f"a {type(value).__name__} is not JSON")
