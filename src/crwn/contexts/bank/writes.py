"""The statements inside a bank's write transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, select, update

from crwn.contexts.bank import queries
from crwn.contexts.bank.tables import contexts as table
from crwn.contexts.bank.tables import counters, forgotten, history, payloads
from crwn.contexts.names import check_free
from crwn.errors import BankError


def count(connection: Connection, *, changes: int, tasks: int) -> int:
    """Add to the counters, which makes other writers wait; returns the number of the last change."""
    changed = update(counters).values(sequence=counters.c.sequence + changes, tasks=counters.c.tasks + tasks)
    connection.execute(changed)
    sequence = connection.scalar(select(counters.c.sequence))
    if sequence is None:
        raise BankError("the bank is damaged: it has lost its counters: restore it with `crwn restore`")
    return int(sequence)


def clear(
    connection: Connection, names: Sequence[str], replace: bool, keep_versions: bool
) -> tuple[dict[str, int], int]:
    """Remove or archive the current contexts of these names; return their last versions and the number of new names.

    Raises:
        TaskExistsError: one of the names exists and `replace` is False.
    """
    there = select(table.c.name, table.c.version, table.c.sequence).where(_is_one_of(connection, table.c.name, names))
    current = {row.name: row for row in connection.execute(there)}
    if not replace:
        check_free(names, current)
    gone = select(forgotten.c.name, forgotten.c.version).where(_is_one_of(connection, forgotten.c.name, names))
    before = {row.name: row.version for row in connection.execute(gone)}
    if before:
        connection.execute(delete(forgotten).where(_is_one_of(connection, forgotten.c.name, list(before))))
    if current:
        _retire(connection, current, keep_versions)
        before |= {name: row.version for name, row in current.items()}
    return before, len(names) - len(current)


def _is_one_of(connection: Connection, column: Column[Any], values: Sequence[str | int]) -> ColumnElement[bool]:
    """That a column has one of these values; SQLite takes them as one text, of any length and at less cost."""
    if connection.dialect.name != "sqlite":
        return column.in_(values)
    listed = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(listed.c.value))


def insert_rows(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert contexts with their payloads."""
    connection.execute(insert(payloads), [{"sequence": row["sequence"], "data": row["data"]} for row in rows])
    connection.execute(insert(table), [{k: v for k, v in row.items() if k != "data"} for row in rows])


def remove(connection: Connection, name: str) -> None:
    """Delete a task with all its versions."""
    sequence = count(connection, changes=1, tasks=0)
    row = queries.find(connection, name)
    if row is None:
        raise queries.unknown(connection, name)
    old = select(history.c.sequence).where(history.c.name == name)
    dropped = [row.sequence, *connection.scalars(old)]
    connection.execute(delete(table).where(table.c.name == name))
    connection.execute(delete(history).where(history.c.name == name))
    connection.execute(delete(payloads).where(payloads.c.sequence.in_(dropped)))
    connection.execute(insert(forgotten).values(name=name, version=row.version, sequence=sequence))
    count(connection, changes=0, tasks=-1)


def _retire(connection: Connection, current: dict[str, Any], keep_versions: bool) -> None:
    """Remove replaced contexts from the list; store them as old versions if `keep_versions`."""
    names = list(current)
    if keep_versions:
        columns = ("name", "version", "checksum", "sequence")
        kept = select(*[table.c[column] for column in columns]).where(_is_one_of(connection, table.c.name, names))
        connection.execute(insert(history).from_select(columns, kept))
    connection.execute(delete(table).where(_is_one_of(connection, table.c.name, names)))
    if not keep_versions:
        dropped = [row.sequence for row in current.values()]
        connection.execute(delete(payloads).where(_is_one_of(connection, payloads.c.sequence, dropped)))
