"""Class labels of contexts as JSON values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from crwn.contexts.checks import check_labels


def encode_label(label: Hashable) -> object:
    """The JSON value of a label."""
    return {"tuple": [encode_label(part) for part in label]} if isinstance(label, tuple) else label


def decode_label(label: object) -> Hashable:
    """The label of a JSON value that `encode_label` made."""
    if isinstance(label, dict):
        return tuple(decode_label(part) for part in label["tuple"])
    if isinstance(label, list):
        raise TypeError("a class label is a list")
    return label


def read_labels(stored: Sequence[object], task: str) -> tuple[Hashable, ...]:
    """The checked labels of a task from the JSON values that `encode_label` made."""
    if set(map(type, stored)) <= _PLAIN:
        return check_labels(stored, task)
    return check_labels([decode_label(label) for label in stored], task)


_PLAIN = {int, str}  # encoded as they are
