"""SQLite files as banks: made whole or not at all, every acknowledged put on disk, small once closed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from crwn.errors import BankError

WAIT_SECONDS = 30.0


def connect(path: Path, *, read_only: bool, wait: float) -> Engine:
    """An engine on the file at `path`, which must be there."""
    flags = "mode=rw"
    if read_only:
        # A closed bank has no log beside it; SQLite can then read it without making one.
        has_log = path.with_name(path.name + "-wal").exists()
        flags = "mode=ro" if has_log else "mode=ro&immutable=1"
    address = f"file:{quote(str(path.absolute()))}?{flags}"

    def open_file() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=wait, check_same_thread=False, isolation_level=None)

    engine = create_engine(
        "sqlite://", creator=open_file, poolclass=QueuePool, pool_size=8, max_overflow=24, pool_timeout=wait
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL").close()
            # FULL: the log is flushed at every commit, so what was acknowledged outlives a power cut.
            connection.execute("PRAGMA synchronous=FULL").close()
            connection.execute("PRAGMA journal_size_limit=67108864").close()
        connection.execute("PRAGMA foreign_keys=ON").close()
        connection.execute("PRAGMA cache_size=-16384").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its place in the queue at once: upgrading a read later would fail instead of waiting.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def make_file(path: Path, statements: list[str]) -> None:
    """Make a new database by these statements under another name, then give it its own unless another was faster."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN")
            for statement in statements:
                connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            connection.close()
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return
        except OSError:  # file systems without links
            if not path.exists():
                temporary.rename(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        for leftover in (temporary, temporary.with_name(temporary.name + "-journal")):
            leftover.unlink(missing_ok=True)


def check_file(path: Path) -> None:
    """Refuse at once what cannot be a bank; SQLite itself would take an empty file for a new database."""
    if path.is_dir():
        raise BankError(f"{path} is a folder: give the path of the bank's file")
    with path.open("rb") as file:
        head = file.read(16)
    if head != b"SQLite format 3\0":
        raise BankError(f"{path} is not a bank, or it is damaged ({path.stat().st_size} bytes): restore it from a copy")


def may_write(path: Path) -> bool:
    """Whether this process may write the file and the log beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def tidy(engine: Engine) -> None:
    """Move the log into the file and cut it to nothing; closing the last connection then removes it."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    finally:
        connection.close()
