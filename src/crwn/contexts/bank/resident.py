"""The tasks used lately, stacked and ready: a fixed number of rows over a bank of any size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from crwn.bank.interface import Bank
from crwn.context import Context, ContextStack, Store
from crwn.errors import ConfigError


@dataclass(frozen=True)
class Facts:
    """What is known of a task beside its tensors."""

    classes: tuple[Hashable, ...]
    info: dict[str, Any]


class ResidentStack:
    """A stack of at most `capacity` tasks; what is missing comes from the bank, the least recently used goes.

    Safe with threads: `take` gives tensors of its own, which later changes do not touch. `positions` hold only until
    the next call that fetches; use `take` where several threads ask.

    Args:
        bank: where contexts come from.
        shapes: name and shape of each tensor of one context.
        capacity: how many tasks are ready at once.
        store: how rows are held; None for the bank's form.
    """

    def __init__(
        self, bank: Bank, shapes: Mapping[str, Sequence[int]], *, capacity: int = 1024, store: Store | None = None
    ) -> None:
        if capacity < 1:
            raise ConfigError(f"a resident stack of capacity {capacity} holds nothing: use 1 or more")
        self.bank = bank
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self._marker = bank.marker()
        self._stack = ContextStack(shapes, store=store or bank.store, capacity=min(capacity, 64))
        self._used: OrderedDict[str, None] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()
        # Fetching and refreshing exclude each other, or an old context could be stacked after its change was seen.
        self._fetching = threading.Lock()

    def __len__(self) -> int:
        return len(self._stack)

    def __contains__(self, name: object) -> bool:
        return name in self._stack

    @property
    def bytes(self) -> int:
        """Memory that the rows take."""
        return self._stack.bytes

    def take(self, names: Sequence[str]) -> dict[str, Tensor]:
        """One context per name, `[B, ...]` by tensor name."""
        with self._ready(names):
            return self._stack.gather(self._stack.positions(names))

    def take_with_facts(self, names: Sequence[str]) -> tuple[dict[str, Tensor], dict[str, Facts]]:
        """Like `take`, with the classes and kept facts of every different task, all of one moment."""
        with self._ready(names):
            return self._stack.gather(self._stack.positions(names)), self._facts(names)

    @contextmanager
    def holding(self, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Tensor], dict[str, Facts]]]:
        """Like `take_with_facts`, each tensor gathered when it is asked for; in the block nothing changes here."""
        with self._ready(names):
            yield self._stack.lazily(self._stack.positions(names)), self._facts(names)

    def facts(self, names: Sequence[str]) -> dict[str, Facts]:
        """The classes and kept facts of these tasks, without their tensors."""
        with self._ready(names):
            return self._facts(names)

    def positions(self, names: Sequence[str]) -> Tensor:
        """The rows of these tasks, `[B]` int64, for `gather`; what was not there is fetched."""
        with self._ready(names):
            return self._stack.positions(names)

    def gather(self, positions: Tensor) -> dict[str, Tensor]:
        """The tensors in these rows, `[B, ...]` by name."""
        with self._lock:
            return self._stack.gather(positions)

    def classes(self, name: str) -> tuple[Hashable, ...]:
        """The label values of this task."""
        with self._ready([name]):
            return self._stack.classes(self._stack.index(name))

    def put(self, context: Context) -> None:
        """Make a context ready that was just learned, without asking the bank for it."""
        with self._fetching, self._lock:
            self._add(context, keep=frozenset((context.name,)))

    def drop(self, name: str) -> None:
        """Let go of a task if it is here."""
        with self._fetching, self._lock:
            self._drop(name)

    def refresh(self) -> list[str]:
        """Let go of what others changed in the bank since the last call; gives the names of all changed tasks."""
        changed: list[str] = []
        with self._fetching:
            while True:
                changes, self._marker = self.bank.changes_since(self._marker)
                if not changes:
                    return changed
                with self._lock:
                    for change in changes:
                        self._drop(change.name)
                        changed.append(change.name)

    def _facts(self, names: Sequence[str]) -> dict[str, Facts]:
        rows = {name: self._stack.index(name) for name in dict.fromkeys(names)}
        return {name: Facts(self._stack.classes(row), self._stack.info(row)) for name, row in rows.items()}

    def _ready(self, names: Sequence[str]) -> _Held:
        """The lock, held, with all these tasks stacked."""
        wanted = dict.fromkeys(names)
        if len(wanted) > self.capacity:
            raise ConfigError(
                f"{len(wanted)} tasks in one batch, but the resident stack holds {self.capacity}: "
                "use smaller batches or more capacity"
            )
        self._lock.acquire()
        missing = [name for name in wanted if name not in self._used]
        if missing:
            self._lock.release()
            with self._fetching:
                with self._lock:  # others may have fetched some meanwhile
                    missing = [name for name in wanted if name not in self._used]
                fetched = self.bank.get_many(missing)
                self._lock.acquire()
                try:
                    for context in fetched:
                        self._add(context, keep=wanted)
                except BaseException:
                    self._lock.release()
                    raise
        self.hits += len(wanted) - len(missing)
        self.misses += len(missing)
        for name in wanted:
            self._used.move_to_end(name)
        return _Held(self._lock)

    def _add(self, context: Context, keep: Mapping[str, None] | frozenset[str]) -> None:
        if context.name in self._used:
            self._stack.replace(context)
        else:
            if len(self._stack) == self.capacity:
                self._drop(next(name for name in self._used if name not in keep))
                self.evictions += 1
            self._stack.append(context)
        self._used[context.name] = None
        self._used.move_to_end(context.name)

    def _drop(self, name: str) -> None:
        if name in self._used:
            self._stack.remove(name)
            del self._used[name]


class _Held:
    """A lock that is held already and let go at the end of the block."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._lock.release()
