"""What every bank does, and the small records it answers with."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from crwn.context import Context, Store
from crwn.errors import TaskError


@dataclass(frozen=True)
class Entry:
    """What a bank's list says of one task, without reading what it learned."""

    name: str
    version: int
    created: str
    numbers: int
    bytes: int
    classes: tuple[Hashable, ...]
    checksum: str
    info: dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A task that was put (`version` says which) or deleted (`version` is None)."""

    sequence: int
    name: str
    version: int | None


@runtime_checkable
class Bank(Protocol):
    """Contexts of one model, kept by task name; safe with many threads and, on disk, many processes."""

    store: Store

    @property
    def model(self) -> str | None:
        """Fingerprint of the model whose contexts these are; None until it is known."""

    def put(self, context: Context, *, replace: bool = False) -> int:
        """Keep a context for good; gives its version. TaskError where the name is taken and not to be replaced."""

    def put_many(self, contexts: Iterable[Context], *, replace: bool = False) -> None:
        """Keep all of these or, where one is refused, none."""

    def get(self, name: str, version: int | None = None) -> Context:
        """The context of this task; TaskError, with near names, when there is none."""

    def get_many(self, names: Sequence[str]) -> list[Context]:
        """The contexts of these tasks in their order, fetched together."""

    def delete(self, name: str) -> None:
        """Drop a task with all its versions."""

    def names(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Names in order of their characters: those that start with `prefix` and come after `after`."""

    def entries(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        """Like `names`, with what the list knows of each task."""

    def versions(self, name: str) -> list[int]:
        """The versions that `get` can give, oldest first."""

    def changes_since(self, marker: int, *, limit: int = 1000) -> tuple[list[Change], int]:
        """The last change of each task changed after `marker`, oldest first, and the marker to ask with next."""

    def marker(self) -> int:
        """How many changes there have been; what `changes_since` starts from."""

    def verify(self) -> list[str]:
        """Read everything and give one line for each context that is damaged."""

    def close(self) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def unknown_task(name: str, near: Iterable[str], count: int) -> TaskError:
    """The error for a name that is not in the bank, with those it may have been meant for."""
    close = difflib.get_close_matches(name, list(near), n=3, cutoff=0.5)
    hint = "did you mean " + " or ".join(f'"{other}"' for other in close) + "?" if close else "list the tasks to see"
    return TaskError(f'task "{name[:200]}" is not in the bank ({count} tasks): {hint}')


def taken(name: str) -> TaskError:
    """The error for putting a task whose name is there."""
    return TaskError(f'task "{name}" is in the bank already: replace it, or choose another name')


def no_version(name: str, version: int, have: Sequence[int]) -> TaskError:
    """The error for asking for a version that is not kept."""
    kept = ", ".join(str(one) for one in have[-8:])
    return TaskError(f'task "{name}" has no version {version}: ask for one that is kept ({kept})')


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


def is_sayable(text: str) -> bool:
    """Whether a database can compare this text at all: no lone surrogates, no NUL."""
    return "\0" not in text and not any(0xD800 <= ord(character) <= 0xDFFF for character in text)
