"""What is asked of a bank's tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, bindparam, outerjoin, select, union_all

from crwn.bank.interface import end_of_prefix, is_sayable, unknown_task
from crwn.bank.tables import contexts as table
from crwn.bank.tables import counters, history, payloads

MOST = 2**31

# Outer joins: a context whose payload is gone is damaged, not unknown.
WITH_DATA = select(table.c.name, table.c.version, table.c.checksum, payloads.c.data).select_from(
    outerjoin(table, payloads, table.c.sequence == payloads.c.sequence)
)
CURRENT = WITH_DATA.where(table.c.name == bindparam("name"))


def page(query: Select[Any], prefix: str, after: str | None, limit: int | None) -> Select[Any] | None:
    """The query cut to one page; None where nothing can match."""
    if not is_sayable(prefix) or (after is not None and not is_sayable(after)) or (limit is not None and limit <= 0):
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
    """The current version of a task, or None."""
    if not is_sayable(name):
        return None
    columns = select(table.c.name, table.c.version, table.c.checksum, table.c.sequence)
    return connection.execute(columns.where(table.c.name == name)).first()


def find_version(connection: Connection, name: str, version: int) -> Any:
    """A replaced version with its payload, or None."""
    if not -MOST < version < MOST:
        return None
    joined = outerjoin(history, payloads, history.c.sequence == payloads.c.sequence)
    query = select(history.c.checksum, payloads.c.data).select_from(joined)
    return connection.execute(query.where(history.c.name == name, history.c.version == version)).first()


def versions_of(connection: Connection, name: str) -> list[int]:
    """All versions that are kept of a task."""
    query = union_all(*[select(t.c.version).where(t.c.name == name) for t in (history, table)])
    return sorted(connection.scalars(query))


def unknown(connection: Connection, name: str) -> Exception:
    """The error for an unknown name; near names are looked for among those that sort next to it."""
    near: list[str] = []
    if is_sayable(name):
        start = name[: max(1, len(name) // 2)]
        for condition, order in (
            (table.c.name >= start, table.c.name),
            (table.c.name < start, table.c.name.desc()),
        ):
            near += connection.scalars(select(table.c.name).where(condition).order_by(order).limit(200))
    return unknown_task(name, near, int(connection.scalar(select(counters.c.tasks)) or 0))
