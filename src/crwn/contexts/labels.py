"""Class labels of contexts: plain Python values that JSON can represent."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from crwn.errors import ContextError


def plain_label(label: object, task: str) -> Hashable:
    """Convert NumPy scalars to Python values; ContextError for labels that JSON cannot represent."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple):
        return tuple(plain_label(part, task) for part in label)
    if label is None or type(label) in (str, int, bool) or (type(label) is float and math.isfinite(label)):
        return label
    raise ContextError(
        f'class label {label!r:.40} of task "{task}" ({type(label).__name__}) cannot be kept: '
        "use text, whole or finite numbers, True, False, None, or tuples of these"
    )


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
