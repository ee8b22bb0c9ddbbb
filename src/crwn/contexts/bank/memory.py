"""A bank in memory, which ends with the process."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from crwn._utils import Closing
from crwn.contexts import Context, Store, StoredContext, check_model, check_store, stored_checksum
from crwn.contexts.bank.interface import Change, Entry, no_version
from crwn.contexts.bank.readable import damages
from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.contexts.names import check_free, end_of_prefix, unknown_task
from crwn.contexts.record import read_record


@dataclass
class _Kept:
    """A task's contexts as bytes by version (the highest is the current one), and the number of its last change."""

    versions: dict[int, bytes]
    sequence: int

    @property
    def current(self) -> int:
        return max(self.versions)


class MemoryBank(Closing):
    """Contexts by name, stored as the same bytes as in the banks on disk."""

    def __init__(self, *, store: Store | None = None, model: str | None = None, keep_versions: bool = False) -> None:
        self.store = check_store(store or "float32")
        self.keep_versions = keep_versions
        self._model = model
        self._tasks: dict[str, _Kept] = {}
        self._sorted: list[str] = []
        self._forgotten: dict[str, tuple[int, int]] = {}  # name -> last version, sequence
        self._sequence = 0
        self._lock = ForkSafeLock(Protects.BANK)

    @property
    def model(self) -> str | None:
        return self._model

    def put(self, context: Context, *, replace: bool = False) -> int:
        data = context.to_bytes(self.store)
        with self._lock:
            self._check(context, replace)
            return self._keep(context, data)

    def put_many(self, contexts: Iterable[Context], *, replace: bool = False, delete: Collection[str] = ()) -> None:
        new = [(context, context.to_bytes(self.store)) for context in contexts]
        with self._lock:
            seen: set[str] = set()
            for context, _ in new:
                self._check(context, replace, new[0][0].model)
                if not replace:
                    check_free([context.name], seen)
                seen.add(context.name)
            for name in delete:
                self._find(name)
            for name in delete:
                self.delete(name)
            for context, data in new:
                self._keep(context, data)

    def get(self, name: str, version: int | None = None) -> Context:
        with self._lock:
            kept = self._find(name)
            data = kept.versions.get(kept.current if version is None else version)
            if data is None:
                raise no_version(name, version or 0, sorted(kept.versions))
        return Context.from_bytes(data, source=f'context of task "{name}" in memory')

    def get_many(self, names: Sequence[str]) -> list[Context]:
        return [Context.from_stored(stored) for stored in self.stored_many(names)]

    def stored_many(self, names: Sequence[str]) -> list[StoredContext]:
        with self._lock:
            found = {name: self._find(name) for name in dict.fromkeys(names)}
            data = {name: kept.versions[kept.current] for name, kept in found.items()}
        read = {name: read_record(data[name], source=f'context of task "{name}" in memory') for name in found}
        return [read[name] for name in names]

    def delete(self, name: str) -> None:
        with self._lock:
            kept = self._find(name)
            self._sequence += 1
            self._forgotten[name] = (kept.current, self._sequence)
            del self._tasks[name]
            del self._sorted[bisect_left(self._sorted, name)]

    def names(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[str]:
        with self._lock:
            start = bisect_left(self._sorted, prefix)
            if after is not None:
                start = max(start, bisect_left(self._sorted, after + "\0"))
            end = end_of_prefix(prefix)
            stop = len(self._sorted) if end is None else bisect_left(self._sorted, end)
            if limit is not None:
                stop = min(stop, start + max(0, limit))
            return self._sorted[start:stop]

    def entries(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        with self._lock:
            names = self.names(prefix, after=after, limit=limit)
            return [self._entry(name) for name in names]

    def versions(self, name: str) -> list[int]:
        with self._lock:
            return sorted(self._find(name).versions)

    def marker(self) -> int:
        return self._sequence

    def changes_since(self, marker: int, *, limit: int = 1000) -> tuple[list[Change], int]:
        with self._lock:
            changes = [Change(kept.sequence, name, kept.current) for name, kept in self._tasks.items()]
            changes += [Change(sequence, name, None) for name, (_, sequence) in self._forgotten.items()]
        changes = sorted((one for one in changes if one.sequence > marker), key=lambda one: one.sequence)[:limit]
        return changes, changes[-1].sequence if changes else marker

    def verify(self) -> list[str]:
        return damages(self, self)

    def close(self) -> None:
        """Do nothing: there is no file or connection."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _find(self, name: str) -> _Kept:
        kept = self._tasks.get(name)
        if kept is None:
            raise unknown_task(name, self._sorted, len(self))
        return kept

    def _check(self, context: Context, replace: bool, model: str | None = None) -> None:
        check_model(context, self._model or model or context.model)
        if not replace:
            check_free([context.name], self._tasks)

    def _keep(self, context: Context, data: bytes) -> int:
        self._model = context.model
        self._sequence += 1
        before = self._tasks.get(context.name)
        if before is None:
            insort(self._sorted, context.name)
            version = self._forgotten.pop(context.name, (0, 0))[0] + 1
            kept = {}
        else:
            version = before.current + 1
            kept = before.versions if self.keep_versions else {}
        self._tasks[context.name] = _Kept({**kept, version: data}, self._sequence)
        return version

    def _entry(self, name: str) -> Entry:
        kept = self._tasks[name]
        data = kept.versions[kept.current]
        context = Context.from_bytes(data)
        return Entry(
            name,
            kept.current,
            context.created,
            context.params,
            len(data),
            context.classes,
            stored_checksum(data),
            context.info,
        )
