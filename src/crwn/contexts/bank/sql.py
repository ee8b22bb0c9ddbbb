"""A bank in a database: SQLite inside the model folder, or PostgreSQL for many machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, null, select, union_all, update

from crwn._utils import Closing
from crwn.contexts import Context, Store, check_model
from crwn.contexts.bank import open as opening
from crwn.contexts.bank import queries
from crwn.contexts.bank.failures import bank_errors
from crwn.contexts.bank.interface import Change, Entry, no_version
from crwn.contexts.bank.stored import CHUNK, chunks, context_of, entry_of, rows_of
from crwn.contexts.bank.tables import contexts as table
from crwn.contexts.bank.tables import counters, forgotten, history, meta, payloads
from crwn.contexts.names import check_free, is_comparable
from crwn.errors import BankError, ContextError


class SqlBank(Closing):
    """Contexts of one model in a database. Use `open_bank`, which documents the arguments."""

    def __init__(
        self,
        where: str | Path,
        *,
        store: Store | None = None,
        model: str | None = None,
        create: bool = True,
        keep_versions: bool = False,
        wait: float = 30.0,
    ) -> None:
        self.keep_versions = keep_versions
        opened = opening.open_database(where, store=store, model=model, create=create, wait=wait)
        self.where, self.store, self.read_only = opened.where, opened.store, opened.read_only
        self._engine, self._model, self._wait = opened.engine, opened.model, wait
        self._process = os.getpid()
        self._queue = threading.Lock()
        self._closed = False

    @property
    def model(self) -> str | None:
        if self._model is None:
            with self._reading("read") as connection:
                self._model = connection.scalar(select(meta.c.value).where(meta.c.key == "model"))
        return self._model

    def put(self, context: Context, *, replace: bool = False) -> int:
        rows = rows_of([context], self.store)
        with self._writing() as connection:
            return self._put(connection, [context], rows, replace)[0]

    def put_many(self, contexts: Iterable[Context], *, replace: bool = False) -> None:
        parts = chunks(contexts)
        first = next(parts, None)
        if first is None:
            return
        first_rows = rows_of(first, self.store)  # before the lock is taken
        with self._writing() as connection:
            for chunk, rows in chain([(first, first_rows)], ((chunk, rows_of(chunk, self.store)) for chunk in parts)):
                self._put(connection, chunk, rows, replace)

    def get(self, name: str, version: int | None = None) -> Context:
        with self._reading("read") as connection:
            row = connection.execute(queries.CURRENT, {"name": name}).first() if is_comparable(name) else None
            if row is None:
                raise queries.unknown(connection, name)
            if version is not None and version != row.version:
                row = queries.find_version(connection, name, version)
                if row is None:
                    raise no_version(name, version, queries.versions_of(connection, name))
        return context_of(name, row.checksum, row.data, self.where)

    def get_many(self, names: Sequence[str]) -> list[Context]:
        wanted = list(dict.fromkeys(names))
        found: dict[str, Context] = {}
        with self._reading("read") as connection:
            for start in range(0, len(wanted), CHUNK):
                chunk = [name for name in wanted[start : start + CHUNK] if is_comparable(name)]
                for row in connection.execute(queries.WITH_DATA.where(table.c.name.in_(chunk))):
                    found[row.name] = context_of(row.name, row.checksum, row.data, self.where)
            for name in wanted:
                if name not in found:
                    raise queries.unknown(connection, name)
        return [found[name] for name in names]

    def delete(self, name: str) -> None:
        with self._writing() as connection:
            sequence = self._count(connection, changes=1, tasks=0)
            row = queries.find(connection, name)
            if row is None:
                raise queries.unknown(connection, name)
            old = select(history.c.sequence).where(history.c.name == name)
            dropped = [row.sequence, *connection.scalars(old)]
            connection.execute(delete(table).where(table.c.name == name))
            connection.execute(delete(history).where(history.c.name == name))
            connection.execute(delete(payloads).where(payloads.c.sequence.in_(dropped)))
            connection.execute(insert(forgotten).values(name=name, version=row.version, sequence=sequence))
            self._count(connection, changes=0, tasks=-1)

    def names(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[str]:
        query = queries.page(select(table.c.name), prefix, after, limit)
        if query is None:
            return []
        with self._reading("list") as connection:
            return [str(name) for name in connection.scalars(query)]

    def entries(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        query = queries.page(select(table), prefix, after, limit)
        if query is None:
            return []
        with self._reading("list") as connection:
            rows = connection.execute(query).all()
        return [entry_of(row, self.where) for row in rows]

    def versions(self, name: str) -> list[int]:
        with self._reading("read") as connection:
            if queries.find(connection, name) is None:
                raise queries.unknown(connection, name)
            return queries.versions_of(connection, name)

    def marker(self) -> int:
        with self._reading("read") as connection:
            return int(connection.scalar(select(counters.c.sequence)) or 0)

    def changes_since(self, marker: int, *, limit: int = 1000) -> tuple[list[Change], int]:
        puts = select(table.c.sequence, table.c.name, table.c.version).where(table.c.sequence > marker)
        gone = select(forgotten.c.sequence, forgotten.c.name, null()).where(forgotten.c.sequence > marker)
        query = union_all(puts, gone).order_by("sequence").limit(limit)
        with self._reading("read") as connection:
            changes = [Change(*row) for row in connection.execute(query)]
        return changes, changes[-1].sequence if changes else marker

    def verify(self) -> list[str]:
        problems = []
        for name in self:
            try:
                for version in self.versions(name):
                    self.get(name, version)
            except (ContextError, BankError) as error:
                problems.append(str(error))
        return problems

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._process != os.getpid():
            return  # the connections belong to the parent process
        with bank_errors("close", self.where):
            opening.close_database(self._engine, read_only=self.read_only)

    def __len__(self) -> int:
        with self._reading("count") as connection:
            return int(connection.scalar(select(counters.c.tasks)) or 0)

    def __contains__(self, name: object) -> bool:
        with self._reading("read") as connection:
            return isinstance(name, str) and queries.find(connection, name) is not None

    def __iter__(self) -> Iterator[str]:
        after = None
        while page := self.names(after=after, limit=1000):
            yield from page
            after = page[-1]

    @contextmanager
    def _reading(self, doing: str) -> Iterator[Connection]:
        self._check_open()
        with bank_errors(doing, self.where), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        self._check_open()
        if self.read_only:
            raise BankError(f"cannot write to bank {self.where}: it is read-only: get the right to write, or copy it")
        with self._queue, bank_errors("write to", self.where), self._engine.connect() as connection:
            connection = connection.execution_options(writing=True)
            with connection.begin():
                opening.wait_at_most(connection, self._wait)
                yield connection

    def _check_open(self) -> None:
        if self._closed:
            raise BankError(f"bank {self.where} is closed: open it again")
        if self._process != os.getpid():
            # Connections must not be used after a fork; the parent process still uses those it has.
            self._engine.dispose(close=False)
            self._queue, self._process = threading.Lock(), os.getpid()

    def _put(
        self, connection: Connection, chunk: Sequence[Context], rows: list[dict[str, Any]], replace: bool
    ) -> list[int]:
        """Write a chunk of contexts with different names; returns their versions."""
        # Counting first makes other writers wait, so that what is read below stays true until the commit.
        last = self._count(connection, changes=len(chunk), tasks=0)
        self._check_models(connection, chunk)
        names = [context.name for context in chunk]
        there = select(table.c.name, table.c.version, table.c.sequence).where(table.c.name.in_(names))
        current = {row.name: row for row in connection.execute(there)}
        if not replace:
            check_free(names, current)
        gone = select(forgotten.c.name, forgotten.c.version).where(forgotten.c.name.in_(names))
        before = {row.name: row.version for row in connection.execute(gone)}
        if before:
            connection.execute(delete(forgotten).where(forgotten.c.name.in_(list(before))))
        if current:
            self._retire(connection, current)
            before |= {name: row.version for name, row in current.items()}
        for sequence, row in enumerate(rows, last - len(rows) + 1):
            row["sequence"], row["version"] = sequence, before.get(row["name"], 0) + 1
        connection.execute(insert(payloads), [{"sequence": row["sequence"], "data": row["data"]} for row in rows])
        connection.execute(insert(table), [{k: v for k, v in row.items() if k != "data"} for row in rows])
        self._count(connection, changes=0, tasks=len(chunk) - len(current))
        return [row["version"] for row in rows]

    def _retire(self, connection: Connection, current: dict[str, Any]) -> None:
        """Remove replaced contexts from the list; store them as old versions if `keep_versions`."""
        names = list(current)
        if self.keep_versions:
            columns = ("name", "version", "checksum", "sequence")
            kept = select(*[table.c[column] for column in columns]).where(table.c.name.in_(names))
            connection.execute(insert(history).from_select(columns, kept))
        connection.execute(delete(table).where(table.c.name.in_(names)))
        if not self.keep_versions:
            dropped = [row.sequence for row in current.values()]
            connection.execute(delete(payloads).where(payloads.c.sequence.in_(dropped)))

    def _check_models(self, connection: Connection, chunk: Sequence[Context]) -> None:
        model = self._model or connection.scalar(select(meta.c.value).where(meta.c.key == "model"))
        if model is None:
            model = chunk[0].model
            connection.execute(insert(meta).values(key="model", value=model))
        else:
            self._model = model
        for context in chunk:
            check_model(context, model)

    def _count(self, connection: Connection, *, changes: int, tasks: int) -> int:
        """Add to the counters; returns the number of the last change."""
        changed = update(counters).values(sequence=counters.c.sequence + changes, tasks=counters.c.tasks + tasks)
        connection.execute(changed)
        sequence = connection.scalar(select(counters.c.sequence))
        if sequence is None:
            raise BankError(f"bank {self.where} is damaged: it has lost its counters: restore it from a copy")
        return int(sequence)
