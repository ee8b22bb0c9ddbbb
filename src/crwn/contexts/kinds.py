"""The kinds of tasks: one of several classes, any number of labels (multilabel), or numbers (regression)."""

from __future__ import annotations

from typing import Literal, get_args

from crwn.errors import ConfigError

Kind = Literal["classification", "multilabel", "regression"]
SEPARATOR = "|"  # between the labels of a row in a column of text
KINDS: tuple[Kind, ...] = get_args(Kind)


def check_kind(kind: str) -> Kind:
    """The kind, if it is one of `KINDS`; raises ConfigError otherwise.

    >>> check_kind("regression")
    'regression'
    """
    for known in KINDS:
        if kind == known:
            return known
    raise ConfigError(f'unknown kind of task "{kind}": choose one of {", ".join(KINDS)}')


def split_labels(text: object) -> list[str]:
    """The labels of a row in a column of text.

    >>> split_labels("red | round")
    ['red', 'round']
    """
    return [part.strip() for part in str(text).split(SEPARATOR) if part.strip()]


def read_kind(stored: object) -> Kind | None:
    """The kind that a context stores; None for any other value."""
    return next((kind for kind in KINDS if kind == stored), None)
