"""A least-recently-used cache over a bank: the contexts of a fixed number of tasks, stacked for prediction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from crwn.contexts import ContextInfo, ContextStack, Store, StoredContext
from crwn.contexts.bank.interface import Bank
from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.errors import ConfigError


@dataclass(frozen=True)
class Facts:
    """What a context holds beside its tensors."""

    classes: tuple[Hashable, ...]
    info: ContextInfo


class ResidentStack:
    """A stack of at most `capacity` contexts: missing ones are fetched from the bank, the least recently used removed.

    Safe with threads.

    Args:
        bank: where contexts are fetched from.
        shapes: name and shape of each tensor of one context.
        capacity: how many contexts are in memory at most.
        store: dtype of the rows in memory; None for the bank's.
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
        self._lock = ForkSafeLock(Protects.STACK)
        # Fetching and refreshing exclude each other, or an old context could be stacked after its change was seen.
        self._fetching = ForkSafeLock(Protects.FETCHING)

    def __len__(self) -> int:
        return len(self._stack)

    def __contains__(self, name: object) -> bool:
        return name in self._stack

    def take_with_facts(self, names: Sequence[str]) -> tuple[dict[str, Tensor], dict[str, Facts]]:
        """One context per name as copied tensors, `[B, ...]` by tensor name, and the facts of every different task."""
        with self._ready(names):
            return self._stack.gather(self._stack.positions(names)), self._facts(names)

    @contextmanager
    def holding(self, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Tensor], dict[str, Facts]]]:
        """Like `take_with_facts`, but each tensor is gathered on access; the stack is locked inside the block."""
        with self._ready(names):
            yield self._stack.lazily(self._stack.positions(names)), self._facts(names)

    def facts(self, names: Sequence[str]) -> dict[str, Facts]:
        """Classes and info of these tasks, without their tensors."""
        with self._ready(names):
            return self._facts(names)

    def holds(self, names: Iterable[str]) -> bool:
        """Whether all these tasks are in memory now."""
        return self._used.keys() >= set(names)

    def load(self, names: Sequence[str]) -> None:
        """Fetch those of these tasks that are not in memory."""
        with self._ready(names):
            pass

    def drop(self, name: str) -> None:
        """Remove a task if it is in memory."""
        with self._fetching, self._lock:
            self._drop(name)

    def refresh(self) -> list[str]:
        """Remove the tasks that were changed in the bank since the last call; return the names of all changed ones."""
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

    @contextmanager
    def _ready(self, names: Sequence[str]) -> Iterator[None]:
        """Hold the lock with all these tasks stacked."""
        wanted = dict.fromkeys(names)
        if len(wanted) > self.capacity:
            raise ConfigError(
                f"{len(wanted)} tasks in one batch, but the resident stack holds {self.capacity}: "
                "use smaller batches or more capacity"
            )
        self._lock.acquire()
        try:
            missing = 0
            if not self._used.keys() >= wanted.keys():
                missing = self._fetch(wanted)
            self.hits += len(wanted) - missing
            self.misses += missing
            for name in wanted:
                self._used.move_to_end(name)
            yield
        finally:
            self._lock.release()

    def _fetch(self, wanted: Mapping[str, None]) -> int:
        """Stack the missing ones of these tasks and return their number; unlocks while the bank is read."""
        self._lock.release()
        with self._fetching:
            try:
                with self._lock:  # others may have fetched some meanwhile
                    missing = [name for name in wanted if name not in self._used]
                contexts = self.bank.stored_many(missing)
            finally:
                self._lock.acquire()
            for context in contexts:
                self._add(context, keep=wanted)
        return len(missing)

    def _add(self, context: StoredContext, keep: Container[str]) -> None:
        if len(self._stack) == self.capacity:
            self._drop(next(name for name in self._used if name not in keep))
            self.evictions += 1
        self._stack.append_stored(context)
        self._used[context.name] = None

    def _drop(self, name: str) -> None:
        if name in self._used:
            self._stack.remove(name)
            del self._used[name]
