"""Banks in SQLite files: created whole or not at all, every acknowledged put on disk, one small file once closed."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from crwn._utils import new_file_beside, sync_folder
from crwn.errors import BankError

WAIT_SECONDS = 30.0
MOMENT = 0.01  # seconds between two tries to open a file whose log is being made or removed
TRIES = 50  # of a read without locks, while other processes write

State = tuple[int, ...]


class BankFile:
    """The file of a bank as it was opened: makes connections to it, and notices when it is no longer that file.

    Args:
        read_only: this process may not write the file or the folder.
        wait: seconds to wait for other writers.
    """

    def __init__(self, path: Path, *, read_only: bool, wait: float) -> None:
        self.path = path.absolute()
        self.read_only = read_only
        self.wait = wait
        self._log = self.path.with_name(self.path.name + "-wal")
        self._name = str(self.path)  # pathlib takes as long as the system's call
        self._file = self.path.stat()

    def check(self) -> None:
        """Raise BankError if the file was deleted or replaced since it was opened."""
        try:
            now = os.stat(self._name)  # noqa: PTH116
        except FileNotFoundError:
            raise BankError(
                f"bank {self.path} was deleted while it was open: what is put now would be lost: "
                "bring it back with `crwn restore` and open it again"
            ) from None
        if now.st_ino != self._file.st_ino or now.st_dev != self._file.st_dev:
            raise BankError(f"bank {self.path} was replaced by another file while it was open: open it again")

    def check_log(self) -> None:
        """Raise BankError if the log is not there, which has every change since the last checkpoint."""
        if not self._log.exists():
            raise BankError(
                f"the log of bank {self.path} ({self.path.name}-wal) was deleted while the bank was open: "
                "what was put last may be lost: open it again and check its tasks"
            )

    def state(self) -> State:
        """Numbers that change whenever another process may have written.

        Without the right to write, SQLite can read a file that has no log beside it only if it takes it as
        `immutable`: it then neither locks the file nor notices changes. So a reader compares the state before and
        after, and reads again, through a new connection, if it differs.
        """
        if not self.read_only:
            return ()
        now = self.path.stat()
        if self._log.exists():
            return (1, now.st_ino)
        return (0, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)

    def read_again(self, state: State, error: Exception, *, last: bool) -> bool:
        """Whether to repeat a read that failed, begun in this state: another process wrote, opened or closed the bank.

        Who opens or closes a bank makes or removes its log and the log's index one after the other. In between, SQLite
        cannot open the file without the right to write; this waits until that is over, except after the `last` try.
        """
        if self.read_only and "unable to open" in str(error):
            time.sleep(0.0 if last else MOMENT)
            return not last
        return self.state() != state

    def open(self) -> sqlite3.Connection:
        """A new connection with the bank's settings."""
        flags = "mode=rw"
        if self.read_only:
            flags = "mode=ro" if self._log.exists() else "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?{flags}",
            uri=True,
            timeout=self.wait,
            check_same_thread=False,
            isolation_level=None,
        )
        try:
            if not self.read_only:
                connection.execute("PRAGMA journal_mode=WAL").close()
                # FULL flushes the log at every commit, so that acknowledged writes survive a power cut.
                connection.execute("PRAGMA synchronous=FULL").close()
                connection.execute("PRAGMA journal_size_limit=67108864").close()
            connection.execute("PRAGMA foreign_keys=ON").close()
            connection.execute("PRAGMA cache_size=-16384").close()
        except BaseException:
            connection.close()
            raise
        return connection


def connect(file: BankFile) -> Engine:
    """An engine on the bank's file."""
    engine = create_engine(
        "sqlite://", creator=file.open, poolclass=QueuePool, pool_size=8, max_overflow=24, pool_timeout=file.wait
    )

    @event.listens_for(engine, "connect")
    def remember(connection: sqlite3.Connection, entry: ConnectionPoolEntry) -> None:
        # One damaged name or fact must not make the list of all others fail.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        entry.info["state"] = file.state()

    @event.listens_for(engine, "checkout")
    def renew(_: sqlite3.Connection, entry: ConnectionPoolEntry, __: PoolProxiedConnection) -> None:
        if entry.info["state"] != file.state():
            raise DisconnectionError("the file was changed")  # the pool makes a new connection

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
        raise BankError(
            f"{path} is not a bank, or it is damaged ({path.stat().st_size} bytes): "
            "restore it from a backup with `crwn restore`"
        )


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
