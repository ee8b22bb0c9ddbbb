"""Database errors as one line: what failed, where, and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from crwn.errors import BankError

# Part of the database's message -> the hint for the user. The first that matches is used.
_HINTS = (
    ("full", "the disk is full: free space and try again"),
    ("readonly", "it is read-only: get the right to write, or copy it elsewhere"),
    ("read-only", "it is read-only: get the right to write, or copy it elsewhere"),
    ("not a database", "it is not a bank, or it is damaged: restore it from a backup with `crwn restore`"),
    ("malformed", "it is damaged: restore it from a backup with `crwn restore`"),
    ("locked", "another process has been writing for too long: end it or try again"),
    ("busy", "another process has been writing for too long: end it or try again"),
    ("lock timeout", "another process has been writing for too long: end it or try again"),
    ("unable to open", "it cannot be opened: check that the folder is there and may be read and written"),
    # SQLite's index of the log is mapped into memory: a full disk is seen as an error of the disk there.
    ("disk i/o error", "the disk is full, or gave an error: free space, or check it"),
    ("password", "the server refused the user or password: check the address"),
    ("does not exist", "the server does not have it: check the address"),
    ("no such", "it is damaged or of another program: restore it from a backup with `crwn restore`"),
)

DATABASE_ERRORS = (exc.SQLAlchemyError, sqlite3.Error, OSError, UnicodeError)


@contextmanager
def bank_errors(doing: str, where: str) -> Iterator[None]:
    """Convert exceptions of databases and files inside the block to a BankError: `cannot <doing> bank <where>: ...`."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise as_bank_error(doing, where, error) from None


def as_bank_error(doing: str, where: str, error: Exception) -> BankError:
    """The one-line error for an exception of a database or file."""
    return BankError(f"cannot {doing} bank {where}: {_explain(error)}")


def _explain(error: Exception) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    text = lines[0][:200] if lines else type(cause).__name__
    if isinstance(error, exc.TimeoutError):
        return "all connections are in use: use fewer threads or try again"
    for part, hint in _HINTS:
        if part in text.lower():
            return f"{hint} ({text})"
    if isinstance(error, exc.DBAPIError) and not isinstance(cause, sqlite3.Error):
        if error.connection_invalidated or isinstance(error, exc.OperationalError):
            return f"the server cannot be reached or went away: check that it runs and try again ({text})"
        return f"{text}: check the server's log"
    return f"it may be damaged: restore it from a backup with `crwn restore` ({text})"
