"""Queries on a bank's tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, outerjoin, select, union_all

from crwn.contexts.bank.tables import contexts as table
from crwn.contexts.bank.tables import counters, history, payloads
from crwn.contexts.names import end_of_prefix, is_comparable, unknown_task

MOST = 2**31

# Outer joins: a context whose payload is missing is damaged, not unknown.
WITH_DATA = select(table.c.name, table.c.checksum, payloads.c.data, table.c.version).select_from(
    outerjoin(table, payloads, table.c.sequence == payloads.c.sequence)
)


def page(query: Select[Any], prefix: str, after: str | None, limit: int | None) -> Select[Any] | None:
    """Restrict a query to one page; None if nothing can match."""
    if not is_comparable(prefix + (after or "")) or (limit is not None and limit <= 0):
        return None
    # One lower bound: given two, SQLite starts from the smaller one and reads everything up to the page.
    if after is not None and after >= prefix:
        query = query.where(table.c.name > after)
    elif prefix:
        query = query.where(table.c.name >= prefix)
    if prefix and (end := end_of_prefix(prefix)) is not None:
        query = query.where(table.c.name < end)
    query = query.order_by(table.c.name)
    return query if limit is None else query.limit(min(limit, MOST))


def find(connection: Connection, name: str) -> Any:
    """The row of a task's current version, or None."""
    if not is_comparable(name):
        return None
    columns = select(table.c.name, table.c.version, table.c.checksum, table.c.sequence)
    return connection.execute(columns.where(table.c.name == name)).first()


def find_version(connection: Connection, name: str, version: int) -> Any:
    """The row of a replaced version with its payload, or None."""
    if not -MOST < version < MOST:
        return None
    joined = outerjoin(history, payloads, history.c.sequence == payloads.c.sequence)
    query = select(history.c.name, history.c.checksum, payloads.c.data).select_from(joined)
    return connection.execute(query.where(history.c.name == name, history.c.version == version)).first()


def versions_of(connection: Connection, name: str) -> list[int]:
    """All stored versions of a task, oldest first."""
    query = union_all(*[select(t.c.version).where(t.c.name == name) for t in (history, table)])
    return sorted(connection.scalars(query))


def unknown(connection: Connection, name: str) -> Exception:
    """The error for an unknown name; similar names are searched among those that sort next to it."""
    near: list[str] = []
    if is_comparable(name):
        start = name[: max(1, len(name) // 2)]
        for condition, order in (
            (table.c.name >= start, table.c.name),
            (table.c.name < start, table.c.name.desc()),
        ):
            near += connection.scalars(select(table.c.name).where(condition).order_by(order).limit(200))
    return unknown_task(name, near, int(connection.scalar(select(counters.c.tasks)) or 0))
