"""Class labels of contexts as JSON values."""

from __future__ import annotations

from collections.abc import Hashable


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
