"""Banks on PostgreSQL servers: addresses, connections that are renewed, and tables created once."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from crwn.contexts.bank.tables import metadata
from crwn.errors import BankError, MissingExtraError

# Any fixed number: the key of the lock that processes creating the tables at the same time wait on.
_MAKING_TABLES = 0x6372776E


def address(url: str) -> URL:
    """Parse the URL and set the driver that crwn uses."""
    try:
        parsed = make_url(url)
        parsed.port  # noqa: B018
    except (ArgumentError, ValueError):
        raise BankError("the bank's address cannot be read: write postgresql://user@host:5432/database") from None
    return parsed.set(drivername="postgresql+psycopg")


def connect(url: URL, *, wait: float) -> Engine:
    """An engine on this server; a lost connection is replaced when it is next needed."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtraError("a bank in PostgreSQL", "postgres") from None
    defaults = {"connect_timeout": max(2, int(wait)), "application_name": "crwn"}
    settings = {key: value for key, value in defaults.items() if key not in url.query}
    return create_engine(
        url, connect_args=settings, pool_pre_ping=True, pool_size=8, max_overflow=24, pool_timeout=wait
    )


def make_tables(connection: Connection) -> None:
    """Create the tables, one process at a time."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING_TABLES})
    metadata.create_all(connection)


def wait_at_most(connection: Connection, seconds: float) -> None:
    """Limit how long this transaction waits for another writer."""
    connection.execute(text(f"SET LOCAL lock_timeout = {int(seconds * 1000)}"))
