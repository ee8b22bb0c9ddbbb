"""The interface of all banks, and the records they return."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from crwn.contexts import Context, ContextInfo, Store, StoredContext
from crwn.errors import TaskError


@dataclass(frozen=True)
class Entry:
    """One line of a bank's list: everything about a task but its tensors, which are not read for it.

    Args:
        params: learned parameters.
        bytes: size of the stored context.
        damage: what is wrong with a task that cannot be listed, of which nothing else is known than its name; else "".
    """

    name: str
    version: int
    created: str
    params: int
    bytes: int
    classes: tuple[Hashable, ...]
    checksum: str
    info: ContextInfo
    damage: str = ""

    @property
    def numbers(self) -> int:
        """Deprecated name of `params`."""
        return self.params


@dataclass(frozen=True)
class Change:
    """A task that was put (`version` is its new version) or deleted (`version` is None)."""

    sequence: int
    name: str
    version: int | None


@runtime_checkable
class Bank(Protocol):
    """Contexts of one model, stored by task name; safe with many threads and, on disk, many processes."""

    store: Store

    @property
    def model(self) -> str | None:
        """Fingerprint of the contexts' model; None until it is known."""

    def put(self, context: Context, *, replace: bool = False) -> int:
        """Store a context and return its version. TaskExistsError if the name exists and `replace` is False."""

    def put_many(self, contexts: Iterable[Context], *, replace: bool = False, delete: Collection[str] = ()) -> None:
        """Store all of these and delete the tasks of `delete` or, if one is refused, do nothing."""

    def get(self, name: str, version: int | None = None) -> Context:
        """The context of this task; TaskError, with similar names, if there is none."""

    def get_many(self, names: Sequence[str]) -> list[Context]:
        """The contexts of these tasks in the same order, fetched together."""

    def stored_many(self, names: Sequence[str]) -> list[StoredContext]:
        """Like `get_many`, as checked records without tensors of their own."""

    def delete(self, name: str) -> None:
        """Delete a task with all its versions."""

    def names(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Sorted names that start with `prefix` and sort after `after`, at most `limit`."""

    def entries(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        """Like `names`, with what the list records about each task."""

    def versions(self, name: str) -> list[int]:
        """The versions that `get` can return, oldest first."""

    def changes_since(self, marker: int, *, limit: int = 1000) -> tuple[list[Change], int]:
        """The last change of each task changed after `marker`, oldest first, and the marker for the next call."""

    def marker(self) -> int:
        """The number of changes so far, to pass to `changes_since`."""

    def verify(self) -> list[str]:
        """Read everything and return one line for each damaged context."""

    def close(self) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def no_version(name: str, version: int, have: Sequence[int]) -> TaskError:
    """The error for a version that is not stored."""
    kept = ", ".join(str(one) for one in have[-8:])
    return TaskError(f'task "{name}" has no version {version}: ask for one that is kept ({kept})')
