"""The one validator of what a context may hold, used wherever one is made or read: learning, files, uploads, banks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crwn.errors import ContextError

LARGEST = 1e18  # of learned values; products of larger ones are infinite in float32
LONGEST_INTEGER = 2**63  # the integers of NumPy, of databases and of most readers of JSON
DEEPEST = 8  # levels of nesting of a label or fact
LONGEST_LABEL = 10_000  # characters

_FLOATS = frozenset({float})
_TEXTS = frozenset({str})


def check_label(label: object, task: str) -> Hashable:
    """Return a class label as a plain Python value.

    Raises:
        ContextError: not text, a finite number, True, False, None or a tuple of these; text that is not Unicode or
            has a NUL, which NumPy arrays drop; an integer of over 64 bits; nested too deep.
    """
    found = label.item() if isinstance(label, np.generic) else label
    try:
        return _plain_label(found, 0)
    except ValueError as error:
        raise ContextError(
            f'class label {_shown(found)} of task "{task}" ({error}) cannot be kept: '
            "use text, whole or finite numbers, True, False, None, or tuples of these"
        ) from None


def _plain_label(label: object, depth: int) -> Hashable:
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) is str:
        _check_text(label)
        if "\0" in label:
            raise ValueError("str with a NUL character")
        if len(label) > LONGEST_LABEL:
            raise ValueError(f"str of {len(label)} characters, the most is {LONGEST_LABEL}")
        return label
    if type(label) is int:
        return _checked_integer(label)
    if label is None or type(label) is bool or (type(label) is float and math.isfinite(label)):
        return label
    if isinstance(label, tuple):
        if depth == DEEPEST:
            raise ValueError(f"tuples nested over {DEEPEST} deep")
        return tuple(_plain_label(part, depth + 1) for part in label)
    raise ValueError(type(label).__name__)


def check_labels(labels: Iterable[Any], task: str) -> tuple[Hashable, ...]:
    """The class labels of a task as plain Python values, each of which must differ from the others."""
    given: tuple[Any, ...] = tuple(labels)
    plain = given if _are_plain(given) else tuple(check_label(label, task) for label in given)
    if len(set(plain)) != len(plain):
        shown = ", ".join(str(label) for label in plain[:4]) + (", ..." if len(plain) > 4 else "")
        raise ContextError(f'classes of task "{task}" repeat a label: {shown}: list each once')
    return plain


def _are_plain(labels: tuple[Any, ...]) -> bool:
    """Whether these are what most tasks have, integers or ASCII text: checked at the speed of a bank's reads."""
    kinds = set(map(type, labels))
    if kinds == {int}:
        return bool(min(labels) >= -LONGEST_INTEGER and max(labels) < LONGEST_INTEGER)
    return kinds == {str} and (text := "".join(labels)).isascii() and "\0" not in text and len(text) <= LONGEST_LABEL


def check_facts(facts: Mapping[str, Any]) -> None:
    """Raise ContextError for facts that not every reader of JSON takes: see `check_label`."""
    for key, value in facts.items():
        try:
            if not key.isascii():
                _check_text(key)
            _check_fact(value, 0)
        except ValueError as error:
            raise ContextError(f"info does not survive JSON: {key!r:.40} holds {error}: use plain values") from None


def _check_fact(value: object, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _check_text(value)  # type: ignore[arg-type]
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueError(f"{value}")
    elif kind is int:
        _checked_integer(value)  # type: ignore[arg-type]
    elif kind is list or kind is dict:
        if depth == DEEPEST:
            raise ValueError(f"values nested over {DEEPEST} deep")
        if kind is dict:
            for key in value:  # type: ignore[attr-defined]
                _check_text(key)
            value = value.values()  # type: ignore[attr-defined]
        elif (kinds := set(map(type, value))) == _FLOATS:  # type: ignore[call-overload]
            if math.isfinite(sum(value)):  # type: ignore[call-overload]
                return
        elif kinds == _TEXTS and "".join(value).isascii():  # type: ignore[arg-type]
            return
        for one in value:  # type: ignore[attr-defined]
            _check_fact(one, depth + 1)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("str that is not Unicode: it has a lone surrogate") from None


def _checked_integer(value: int) -> int:
    if not -LONGEST_INTEGER <= value < LONGEST_INTEGER:
        raise ValueError("int of over 64 bits")
    return value


def values_are_usable(values: npt.NDArray[np.floating[Any]]) -> bool:
    """Whether all values are finite and no larger than LARGEST."""
    # Comparisons with NaN are false. No square is larger than the sum of all, which is the fastest to compute.
    if values.dtype == np.float32 and np.vdot(values, values) <= LARGEST**2:
        return True
    return values.size == 0 or -LARGEST <= float(values.min()) <= float(values.max()) <= LARGEST


def check_values(task: str, key: str, values: npt.NDArray[np.floating[Any]]) -> None:
    """Raise ContextError if a tensor has values that are not finite, or too large to compute with."""
    if values_are_usable(values):
        return
    if not np.isfinite(values).all():
        raise ContextError(f'context for task "{task}" has NaN or infinite numbers in {key}: learn the task again')
    largest = float(np.abs(values).max())
    raise ContextError(
        f'context for task "{task}" has {largest:.3g} in {key}, the largest value is {LARGEST:g}: learn the task again'
    )


def check_stamp(text: object, what: str) -> str:
    """Return a context's fingerprint of its model or its time of learning, if it is short printable text."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is of the wrong type")
    if len(text) > 200 or not text.isprintable():
        raise ContextError(f"{what} {text!r:.40} is not short printable text")
    return text


def _shown(label: object) -> str:
    try:
        return f"{label!r:.40}"
    except (ValueError, RecursionError):  # an integer of thousands of digits, tuples nested thousands deep
        return f"of type {type(label).__name__}"
