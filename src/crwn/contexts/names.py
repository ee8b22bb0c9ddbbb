"""Names of tasks: which are allowed, which are free, how they sort, and the errors for those that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable

from crwn._utils import counted
from crwn.errors import TaskError, TaskExistsError

LONGEST_NAME = 200
# Zero-width (non-)joiners are invisible but needed to spell Persian, Hindi and many emoji.
_JOINERS = str.maketrans("", "", "\u200c\u200d")


def check_name(name: str) -> str:
    """Return the name if a task may have it.

    Raises:
        TaskError: not text, empty, longer than 200 characters, or with characters that cannot be printed.
    """
    if not isinstance(name, str):
        raise TaskError(f"task name {name!r} is of type {type(name).__name__}: name tasks with text")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise TaskError(f"task name {name[:20]!r} has {len(name)} characters: use 1 to {LONGEST_NAME}")
    if not name.isprintable() and not name.translate(_JOINERS).isprintable():
        raise TaskError(f"task name {name!r} has characters that cannot be printed: leave them out")
    return name


def check_free(
    names: Iterable[str],
    existing: Container[str],
    *,
    where: object = "the bank",
    hint: str = "replace it, or choose another name",
) -> None:
    """Raise TaskExistsError if one of the names is among the existing ones.

    Args:
        where: what holds the existing names, for the message.
        hint: what the caller can do instead, for the message.

    >>> check_free(["left"], {"right"})
    """
    for name in names:
        if name in existing:
            raise TaskExistsError(f'task "{name}" is in {where} already: {hint}')


def unknown_task(name: str, near: Iterable[str], count: int) -> TaskError:
    """The error for a name that is not among `count` tasks, with the most similar ones of `near` as suggestions."""
    close = difflib.get_close_matches(name, list(near), n=3, cutoff=0.5)
    hint = "did you mean " + " or ".join(f'"{other}"' for other in close) + "?" if close else "list the tasks to see"
    held = counted(count, "task")
    return TaskError(f'task "{name[:200]}" is not in the bank ({held}): {hint}')


def end_of_prefix(prefix: str) -> str | None:
    """The smallest text greater than everything that starts with `prefix`; None when there is no such text.

    >>> end_of_prefix("left/")
    'left0'
    """
    while prefix:
        last = ord(prefix[-1]) + 1
        if last == 0xD800:
            last = 0xE000  # surrogates are not characters, and no database takes them
        if last <= 0x10FFFF:
            return prefix[:-1] + chr(last)
        prefix = prefix[:-1]
    return None


def is_comparable(text: str) -> bool:
    """Whether databases accept the text in a query: no lone surrogates, no NUL."""
    return "\0" not in text and (text.isascii() or not any(0xD800 <= ord(character) <= 0xDFFF for character in text))
