"""Opens a database as a bank: checks format and model, and whether it may be written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from crwn.contexts import Store, check_store
from crwn.contexts.bank import postgres, sqlite
from crwn.contexts.bank.failures import bank_errors
from crwn.contexts.bank.sqlite import TRIES, BankFile
from crwn.contexts.bank.tables import FORMAT, counters, meta, metadata
from crwn.errors import BankError, hide_passwords


@dataclass(frozen=True)
class Opened:
    """An open database that was checked to be a bank of the right model."""

    engine: Engine
    where: str
    store: Store
    model: str | None
    read_only: bool
    file: BankFile | None = None


def open_database(where: str | Path, *, store: Store | None, model: str | None, create: bool, wait: float) -> Opened:
    """Open the bank at a path or address; create it if there is none and `create` is True."""
    if store is not None:
        check_store(store)
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        return _open_server(where, store, model, create, wait)
    return _open_file(_path(where), store, model, create, wait)


def close_database(engine: Engine, *, read_only: bool) -> None:
    """Close all connections; an SQLite file is left without a log beside it."""
    try:
        if engine.dialect.name == "sqlite" and not read_only:
            sqlite.tidy(engine)
    finally:
        engine.dispose()


def wait_at_most(connection: Connection, seconds: float) -> None:
    """Set how long a transaction waits for another writer; connections to SQLite have it from the start."""
    if connection.dialect.name == "postgresql":
        postgres.wait_at_most(connection, seconds)


def _path(where: str | Path) -> Path:
    if isinstance(where, str) and "://" in where:
        kind, _, path = where.partition(":///")
        if kind != "sqlite" or not path:
            raise BankError(
                f"bank address {where.split('://')[0][:40]}://... is not known: use a path, sqlite:///path or postgresql://..."
            )
        return Path(path)
    return Path(where)


def _open_file(path: Path, store: Store | None, model: str | None, create: bool, wait: float) -> Opened:
    where = str(path)
    with bank_errors("open", where):
        if not path.exists():
            if not create:
                raise BankError(
                    f"bank {where} is not there: check the path, or restore it from a backup with `crwn restore`"
                )
            if not path.parent.is_dir():
                raise BankError(f"cannot make bank {where}: folder {path.parent} is not there: make it first")
            sqlite.make_file(path, _statements())
        sqlite.check_file(path)
        file = BankFile(path, read_only=not sqlite.may_write(path), wait=wait)
        return _checked(sqlite.connect(file), where, store, model, file=file)


def _open_server(url: str, store: Store | None, model: str | None, create: bool, wait: float) -> Opened:
    address = postgres.address(url)
    where = hide_passwords(address.set(drivername="postgresql").render_as_string(hide_password=True))
    with bank_errors("open", where):
        engine = postgres.connect(address, wait=wait)
        with engine.connect() as connection:
            there = inspect(connection).has_table(meta.name)
        if not there:
            if not create:
                engine.dispose()
                raise BankError(f"bank {where} is not there: check the address")
            with engine.begin() as connection:
                postgres.make_tables(connection)
                if connection.scalar(select(meta.c.value).where(meta.c.key == "format")) is None:
                    connection.execute(insert(meta).values(key="format", value=FORMAT))
                    connection.execute(insert(counters).values(id=1, sequence=0, tasks=0))
        return _checked(engine, where, store, model)


def _statements() -> list[str]:
    """The SQL statements that create an empty bank in a new SQLite file."""
    dialect = sqlite_dialect.dialect()
    statements = []
    for one in metadata.sorted_tables:
        statements.append(str(CreateTable(one).compile(dialect=dialect)))
        statements += [str(CreateIndex(index).compile(dialect=dialect)) for index in one.indexes]
    statements.append(f"INSERT INTO {meta.name} (key, value) VALUES ('format', '{FORMAT}')")
    statements.append(f"INSERT INTO {counters.name} (id, sequence, tasks) VALUES (1, 0, 0)")
    return statements


def _checked(
    engine: Engine, where: str, store: Store | None, model: str | None, *, file: BankFile | None = None
) -> Opened:
    """Check the format and model of a bank; record model and store in a new one."""
    read_only = file is not None and file.read_only
    try:
        recorded = _first_read(engine, file)
        if "format" not in recorded:
            raise BankError(
                f"bank {where} does not say its format: it is damaged: restore it from a backup with `crwn restore`"
            )
        if recorded["format"] != FORMAT:
            raise BankError(
                f"bank {where} has format version {recorded['format']:.20}, this crwn reads {FORMAT}: update crwn"
            )
        wanted = {key: value for key, value in (("model", model), ("store", store)) if value and key not in recorded}
        if wanted and not read_only:
            with engine.connect().execution_options(writing=True) as connection, connection.begin():
                recorded = _read_meta(connection)
                missing = {key: value for key, value in wanted.items() if key not in recorded}
                for key, value in missing.items():
                    connection.execute(insert(meta).values(key=key, value=value))
                recorded |= missing
        if model is not None and recorded.get("model", model) != model:
            raise BankError(
                f"bank {where} keeps contexts of model {recorded['model'][:12]}..., this model is {model[:12]}...: "
                "open the bank that belongs to it"
            )
        kept_as = check_store(store or recorded.get("store", "float32"))
        return Opened(engine, where, kept_as, recorded.get("model"), read_only, file)
    except BaseException:
        engine.dispose()
        raise


def _first_read(engine: Engine, file: BankFile | None) -> dict[str, str]:
    for number in range(TRIES):
        state = None if file is None else file.state()
        try:
            with engine.connect() as connection:
                return _read_meta(connection)
        except DBAPIError as error:
            if file is None or state is None or not file.read_again(state, error, last=number == TRIES - 1):
                raise
    raise BankError(f"bank {file and file.path} is written all the time: try again")


def _read_meta(connection: Connection) -> dict[str, str]:
    return {str(row.key): str(row.value) for row in connection.execute(select(meta))}
