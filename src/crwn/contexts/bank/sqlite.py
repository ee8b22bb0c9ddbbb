"""Banks in SQLite files: created whole or not at all, every acknowledged put on disk, one small file once closed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from crwn._utils import new_file_beside, sync_folder
from crwn.errors import BankError

WAIT_SECONDS = 30.0


def connect(path: Path, *, read_only: bool, wait: float) -> Engine:
    """An engine on the existing file at `path`."""
    flags = "mode=rw"
    if read_only:
        # A closed bank has no log beside it; SQLite can then read it without creating one.
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
            # FULL flushes the log at every commit, so that acknowledged writes survive a power cut.
            connection.execute("PRAGMA synchronous=FULL").close()
            connection.execute("PRAGMA journal_size_limit=67108864").close()
        connection.execute("PRAGMA foreign_keys=ON").close()
        connection.execute("PRAGMA cache_size=-16384").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the write lock at once: upgrading a read transaction later would fail instead of waiting.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def make_file(path: Path, statements: list[str]) -> None:
    """Create a database by these statements under a temporary name, then rename it unless `path` exists by then.

    The file is in WAL mode before others can open it: switching a file that is open elsewhere fails without waiting.
    """
    temporary = new_file_beside(path)
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN")
            for statement in statements:
                connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            connection.close()
        _give_name(temporary, path)
        sync_folder(path.parent)
    finally:
        for leftover in ("", "-wal", "-shm", "-journal"):
            temporary.with_name(temporary.name + leftover).unlink(missing_ok=True)


def _give_name(temporary: Path, path: Path) -> None:
    """Make the file available as `path`, unless there is a file of that name."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        with suppress(FileExistsError), _locked(path.parent):
            if not path.exists():
                temporary.rename(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Exclude other processes from the block, so that a rename inside cannot replace a file they made."""
    try:
        import fcntl
    except ImportError:  # Windows, where renaming never replaces a file
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_file(path: Path) -> None:
    """Raise BankError for what cannot be a bank; SQLite would take an empty file for a new database."""
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
    """Write the log into the file and truncate it; closing the last connection then removes it."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    finally:
        connection.close()
