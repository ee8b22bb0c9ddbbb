"""The reads and writes that a bank in SQLite does most, through the driver itself: a query costs what SQLite takes.

Everything else goes through SQLAlchemy, whose cost per query is several times that of reading one context.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from crwn.contexts.bank.sqlite import TRIES, BankFile, State
from crwn.errors import BankError

# Outer joins: a context whose payload is missing is damaged, not unknown.
ONE = (
    "SELECT c.name, c.checksum, p.data, c.version FROM crwn_contexts c "
    "LEFT JOIN crwn_payloads p ON p.sequence = c.sequence WHERE c.name = ?"
)
# One statement for any number of names; the cross join makes SQLite look up each name in the index.
MANY = (
    "SELECT c.name, c.checksum, p.data FROM json_each(?) asked CROSS JOIN crwn_contexts c ON c.name = asked.value "
    "LEFT JOIN crwn_payloads p ON p.sequence = c.sequence"
)
PUT_DATA = "INSERT INTO crwn_payloads (sequence, data) VALUES (?, ?)"
_LISTED = ("sequence", "name", "version", "created", "numbers", "bytes", "classes", "info", "checksum")
PUT_CONTEXT = f"INSERT INTO crwn_contexts ({', '.join(_LISTED)}) VALUES ({', '.join('?' * len(_LISTED))})"

# Connections of a parent process: closing them in a forked child would change the parent's files.
_inherited: list[tuple[sqlite3.Connection, State]] = []


class DirectReads:
    """Connections that are kept open for reading, with their statements prepared; safe with threads."""

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self._idle: list[tuple[sqlite3.Connection, State]] = []

    def one(self, name: str) -> Any:
        """Name, checksum, payload and version of a task, or None."""
        rows = self._fetch(ONE, (name,))
        return rows[0] if rows else None

    def many(self, names: Sequence[str]) -> list[Any]:
        """Name, checksum and payload of each of these tasks that is there."""
        return self._fetch(MANY, (wanted(names),))

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[0].close()

    def forget(self) -> None:
        """In a forked child: leave the connections to the parent process."""
        _inherited.extend(self._idle)
        self._idle = []

    def _fetch(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        file = self._file
        for number in range(TRIES):
            state = file.state()
            connection = None
            try:
                connection, opened = self._take(state)
                rows = connection.execute(statement, values).fetchall()
            except BaseException as error:
                if connection is not None:
                    connection.close()
                if isinstance(error, Exception) and file.read_again(state, error, last=number == TRIES - 1):
                    continue
                raise
            if opened == file.state() == state:
                self._idle.append((connection, opened))
                return rows
            connection.close()
        raise BankError(f"bank {file.path} is written all the time: try again")

    def _take(self, state: State) -> tuple[sqlite3.Connection, State]:
        """An idle connection that was made in this state of the file, or a new one."""
        try:
            while (taken := self._idle.pop())[1] != state:
                taken[0].close()
        except IndexError:
            return self._file.open(), state
        return taken


def wanted(names: Sequence[str]) -> str:
    """These names as the parameter of the query `MANY`."""
    return json.dumps(names)


def insert_rows(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert contexts with their payloads into an SQLite bank."""
    payloads, listed = values_of(rows)
    connection.exec_driver_sql(PUT_DATA, payloads)
    connection.exec_driver_sql(PUT_CONTEXT, listed)


def values_of(rows: Sequence[dict[str, Any]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The values that PUT_DATA and PUT_CONTEXT take for these rows."""
    payloads = [(row["sequence"], row["data"]) for row in rows]
    return payloads, [tuple([row[column] for column in _LISTED]) for row in rows]
