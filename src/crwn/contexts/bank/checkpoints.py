"""Copies the log of a bank in SQLite into its file while the writer goes on, which takes as long as writing the log."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from sqlalchemy import Connection

from crwn.contexts.bank.failures import DATABASE_ERRORS
from crwn.contexts.bank.sqlite import BankFile

# Pages in the log from which a commit copies it itself: SQLite's default, and while a thread does it.
USUAL_PAGES = 1000
MOST_PAGES = 65536  # 256 MB


class Checkpoints:
    """At most one thread that copies the log of this file; safe with threads."""

    def __init__(self, file: BankFile) -> None:
        self._file = file
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def leave_to_thread(self, connection: Connection) -> None:
        """Let the next commit of this connection not copy the log, unless it is long."""
        _copy_from(connection, MOST_PAGES)

    def begin(self, connection: Connection) -> None:
        """Copy the log in the background from now on, unless that is being done."""
        _copy_from(connection, USUAL_PAGES)
        with self._starting:
            if self._process != os.getpid():  # threads end with a fork
                self._process, self._thread = os.getpid(), None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._copy, name="crwn-checkpoint", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until the log is copied."""
        thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join()

    def _copy(self) -> None:
        # Whatever fails here is done, and reported, by a later commit or when the bank is closed.
        with suppress(*DATABASE_ERRORS):
            connection = self._file.open()
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            finally:
                connection.close()


def _copy_from(connection: Connection, pages: int) -> None:
    connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint={pages}").close()
