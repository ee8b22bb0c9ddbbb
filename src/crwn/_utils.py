"""Helpers of all rooms: cores, memory, settings, whole files, objects closed by `with`, how progress is shown."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self, TypeVar

from pydantic import BaseModel, ValidationError

from crwn.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


class Closing:
    """An object that a `with` block closes at its end, whatever happens inside."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes of memory that are free, where the system reports it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def validated(kind: type[Model], fields: Mapping[str, Any]) -> Model:
    """A pydantic model of these fields, or a ConfigError with one line about the first wrong one."""
    try:
        return kind(**fields)
    except ValidationError as error:
        where, message, value = first_problem(error)
        raise ConfigError(f"{where}: {message} (got {value!r})" if where else message) from None


def first_problem(error: ValidationError) -> tuple[str, str, Any]:
    """The first wrong field of a pydantic model, what is wrong with it, and its value."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return where, str(first["msg"]).removeprefix("Value error, "), first["input"]


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name when the block ends: a crash leaves the old file or the whole new one.

    An exception in the block leaves the old file.
    """
    temporary = new_file_beside(path)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves either the old file or the whole new one."""
    with atomic_file(path) as file:
        file.write(data)


def new_file_beside(path: Path) -> Path:
    """Create an empty hidden file of a random name in the folder of `path`, with the rights of any new file."""
    temporary = path.with_name(f".{path.name[:20]}.{secrets.token_hex(8)}.part")
    temporary.touch(0o666, exist_ok=False)
    return temporary


def sync_folder(folder: Path) -> None:
    """Flush the names of a folder's files to disk, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def counted(count: int, what: str) -> str:
    """A count with its noun, in the plural where it is not 1.

    >>> counted(1, "task"), counted(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")


QUIET = "CRWN_QUIET"  # environment variable that `crwn --quiet` sets, for the processes it starts too


def is_quiet() -> bool:
    """Whether progress and notes are switched off."""
    return os.environ.get(QUIET, "") not in ("", "0")


LINE_EVERY = 10.0  # seconds between two lines of progress, so that a log file stays short


def display() -> Literal["bars", "lines", "none"]:
    """How progress is shown: bars need a terminal, or a notebook with ipywidgets."""
    if is_quiet():
        return "none"
    if sys.stderr.isatty():
        return "bars"
    from rich.console import Console

    return "bars" if Console(stderr=True).is_jupyter and find_spec("ipywidgets") is not None else "lines"


class Lines:
    """Prints progress as whole lines on stderr, one in ten seconds: a bar cannot be redrawn in a log file."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def show(self, text: Callable[[], str]) -> None:
        """Print a line, made by `text`, where one is due."""
        if time.monotonic() - self.last >= LINE_EVERY:
            self.last = time.monotonic()
            print(text(), file=sys.stderr, flush=True)
