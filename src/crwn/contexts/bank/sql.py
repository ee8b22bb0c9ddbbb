"""A bank in a database: SQLite inside the model folder, or PostgreSQL for many machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, insert, null, select, union_all

from crwn._utils import Closing
from crwn.contexts import Context, Store, StoredContext, check_model
from crwn.contexts.bank import driver, queries, writes
from crwn.contexts.bank import open as opening
from crwn.contexts.bank.checkpoints import Checkpoints
from crwn.contexts.bank.failures import DATABASE_ERRORS, as_bank_error, bank_errors
from crwn.contexts.bank.interface import Change, Entry, no_version
from crwn.contexts.bank.readable import damages
from crwn.contexts.bank.sqlite import TRIES
from crwn.contexts.bank.stored import CHUNK, chunks, entry_of, read_row, rows_of
from crwn.contexts.bank.tables import contexts as table
from crwn.contexts.bank.tables import counters, forgotten, history, meta
from crwn.contexts.names import is_comparable
from crwn.errors import BankError, ContextError, CRWNError

Result = TypeVar("Result")


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
        self._file = opened.file
        self._direct = None if opened.file is None else driver.DirectReads(opened.file)
        self._checkpoints = None if opened.file is None else Checkpoints(opened.file)
        self._process = os.getpid()
        self._queue = threading.Lock()
        self._closed = False

    @property
    def model(self) -> str | None:
        if self._model is None:
            query = select(meta.c.value).where(meta.c.key == "model")
            self._model = self._read("read", lambda connection: connection.scalar(query))
        return self._model

    def put(self, context: Context, *, replace: bool = False) -> int:
        rows = rows_of([context], self.store)
        with self._writing() as connection:
            return self._put(connection, [context], rows, replace)[0]

    def put_many(self, contexts: Iterable[Context], *, replace: bool = False, delete: Collection[str] = ()) -> None:
        parts = chunks(contexts)
        first = next(parts, [])
        first_rows = rows_of(first, self.store)  # before the lock is taken
        if not first and not delete:
            return
        with self._writing(many=len(first) >= CHUNK) as connection:
            for name in delete:
                writes.remove(connection, name)
            for chunk, rows in chain([(first, first_rows)], ((chunk, rows_of(chunk, self.store)) for chunk in parts)):
                if chunk:
                    self._put(connection, chunk, rows, replace)

    def get(self, name: str, version: int | None = None) -> Context:
        row = self._current(name) if is_comparable(name) else None
        if row is None:
            raise self._unknown(name)
        if version is not None and version != row[3]:
            row = self._read("read", lambda connection: queries.find_version(connection, name, version))
            if row is None:
                raise no_version(name, version, self.versions(name))
        return Context.from_stored(read_row(row[0], row[1], row[2], self.where))

    def get_many(self, names: Sequence[str]) -> list[Context]:
        return [Context.from_stored(stored) for stored in self.stored_many(names)]

    def stored_many(self, names: Sequence[str]) -> list[StoredContext]:
        wanted = list(dict.fromkeys(names))
        found: dict[str, StoredContext] = {}
        for row in self._rows([name for name in wanted if is_comparable(name)]):
            found[row[0]] = read_row(row[0], row[1], row[2], self.where)
        for name in wanted:
            if name not in found:
                raise self._unknown(name)
        return [found[name] for name in names]

    def delete(self, name: str) -> None:
        with self._writing() as connection:
            writes.remove(connection, name)

    def names(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[str]:
        query = queries.page(select(table.c.name), prefix, after, limit)
        if query is None:
            return []
        return self._read("list", lambda connection: [str(name) for name in connection.scalars(query)])

    def entries(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        query = queries.page(select(table), prefix, after, limit)
        if query is None:
            return []
        rows = self._read("list", lambda connection: connection.execute(query).all())
        return [entry_of(row) for row in rows]

    def versions(self, name: str) -> list[int]:
        def find(connection: Connection) -> list[int]:
            if queries.find(connection, name) is None:
                raise queries.unknown(connection, name)
            return queries.versions_of(connection, name)

        return self._read("read", find)

    def marker(self) -> int:
        return self._read("read", lambda connection: int(connection.scalar(select(counters.c.sequence)) or 0))

    def changes_since(self, marker: int, *, limit: int = 1000) -> tuple[list[Change], int]:
        puts = select(table.c.sequence, table.c.name, table.c.version).where(table.c.sequence > marker)
        gone = select(forgotten.c.sequence, forgotten.c.name, null()).where(forgotten.c.sequence > marker)
        query = union_all(puts, gone).order_by("sequence").limit(limit)
        changes = self._read("read", lambda connection: [Change(*row) for row in connection.execute(query)])
        return changes, changes[-1].sequence if changes else marker

    def verify(self) -> list[str]:
        problems: list[str] = []
        after = None
        while page := self.names(after=after, limit=CHUNK):
            after = page[-1]
            try:
                self.stored_many(page)
            except CRWNError:
                problems += damages(self, page)
        olds = select(history.c.name, history.c.version)
        for name, version in self._read("read", lambda connection: connection.execute(olds).all()):
            try:
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
            if self._direct is not None:
                self._direct.close()
            if self._checkpoints is not None:
                self._checkpoints.wait()
            opening.close_database(self._engine, read_only=self.read_only)

    def __len__(self) -> int:
        return self._read("count", lambda connection: int(connection.scalar(select(counters.c.tasks)) or 0))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return self._read("read", lambda connection: queries.find(connection, name) is not None)

    def __iter__(self) -> Iterator[str]:
        after = None
        while page := self.names(after=after, limit=1000):
            yield from page
            after = page[-1]

    def _unknown(self, name: str) -> Exception:
        return self._read("read", lambda connection: queries.unknown(connection, name))

    def _current(self, name: str) -> Any:
        """Name, checksum, payload and version of a task, or None."""
        if self._direct is None:
            query = queries.WITH_DATA.where(table.c.name == name)
            return self._read("read", lambda connection: connection.execute(query).first())
        self._check_open()
        try:
            return self._direct.one(name)
        except DATABASE_ERRORS as error:  # a `with` block of `bank_errors` would cost a tenth of the read
            raise as_bank_error("read", self.where, error) from None

    def _rows(self, names: Sequence[str]) -> Iterator[Any]:
        """Name, checksum and payload of each of these tasks that is there, in any order."""
        for start in range(0, len(names), CHUNK):
            some = names[start : start + CHUNK]
            if self._direct is None:
                query = queries.WITH_DATA.where(table.c.name.in_(some))
                yield from self._read("read", partial(_all, query))
            else:
                self._check_open()
                with bank_errors("read", self.where):
                    rows = self._direct.many(some)
                yield from rows

    def _read(self, doing: str, work: Callable[[Connection], Result]) -> Result:
        """What `work` reads; a file that this process may not lock is read again if it was written meanwhile."""
        self._check_open()
        file = self._file
        with bank_errors(doing, self.where):
            for number in range(TRIES):
                state = None if file is None else file.state()
                try:
                    with self._engine.connect() as connection:
                        found = work(connection)
                except Exception as error:
                    if file is None or state is None or not file.read_again(state, error, last=number == TRIES - 1):
                        raise
                    continue
                if file is None or file.state() == state:
                    return found
        raise BankError(f"cannot {doing} bank {self.where}: it is written all the time: try again")

    @contextmanager
    def _writing(self, *, many: bool = False) -> Iterator[Connection]:
        self._check_open()
        if self.read_only:
            raise BankError(f"cannot write to bank {self.where}: it is read-only: get the right to write, or copy it")
        # Writers of this process queue up here: waiting for the database's lock is neither fair nor cheap.
        with self._queue, bank_errors("write to", self.where), self._engine.connect() as connection:
            connection = connection.execution_options(writing=True)
            aside = self._checkpoints if many else None
            with connection.begin():
                opening.wait_at_most(connection, self._wait)
                yield connection
                if aside is not None:
                    aside.leave_to_thread(connection)
            if aside is not None:
                aside.begin(connection)
            if self._file is not None:  # what was committed to a file that is gone is not acknowledged
                self._file.check()
                self._file.check_log()

    def _check_open(self) -> None:
        if self._closed:
            raise BankError(f"bank {self.where} is closed: open it again")
        if self._process != os.getpid():
            # Connections must not be used after a fork; the parent process still uses those it has.
            self._engine.dispose(close=False)
            if self._direct is not None:
                self._direct.forget()
            self._queue, self._process = threading.Lock(), os.getpid()
        if self._file is not None:
            self._file.check()

    def _put(
        self, connection: Connection, chunk: Sequence[Context], rows: list[dict[str, Any]], replace: bool
    ) -> list[int]:
        """Write a chunk of contexts with different names; returns their versions."""
        # Counting first makes other writers wait, so that what is read below stays true until the commit.
        last = writes.count(connection, changes=len(chunk), tasks=0)
        self._check_models(connection, chunk)
        before, added = writes.clear(connection, [context.name for context in chunk], replace, self.keep_versions)
        for sequence, row in enumerate(rows, last - len(rows) + 1):
            row["sequence"], row["version"] = sequence, before.get(row["name"], 0) + 1
        (writes.insert_rows if self._direct is None else driver.insert_rows)(connection, rows)
        writes.count(connection, changes=0, tasks=added)
        return [row["version"] for row in rows]

    def _check_models(self, connection: Connection, chunk: Sequence[Context]) -> None:
        model = self._model or connection.scalar(select(meta.c.value).where(meta.c.key == "model"))
        if model is None:
            model = chunk[0].model
            connection.execute(insert(meta).values(key="model", value=model))
        else:
            self._model = model
        for context in chunk:
            check_model(context, model)


def _all(query: Select[Any], connection: Connection) -> Sequence[Any]:
    return connection.execute(query).all()
