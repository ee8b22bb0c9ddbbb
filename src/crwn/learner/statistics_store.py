"""Where a learner keeps the statistics of its tasks: in memory, or in `statistics/` of its model folder.

A file is named by a digest of task and content, and a context names the file it was computed from. A new file is
written first, then the context is replaced, which is one transaction, then the old file is removed: a process killed at
any moment leaves the old context with the old statistics, or the new with the new.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crwn._utils import write_whole
from crwn.contexts import Context
from crwn.contexts.bank import Bank
from crwn.errors import ContextError
from crwn.training.exact import Statistics
from crwn.training.exact.files import digest, from_bytes, read, to_bytes

FOLDER = "statistics"
KEY = "signing.key"
SHARED = "shared"


class StatisticsStore:
    """Statistics by the digest of task and content.

    Args:
        folder: the model folder; None keeps them in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / FOLDER
        self._memory: dict[str, bytes] = {}
        self._key: bytes | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing statistics in the block: rows are added to what was read."""
        try:
            import fcntl
        except ImportError:  # no such locks on Windows
            fcntl = None  # type: ignore[assignment]
        if self.folder is None or fcntl is None:
            yield
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def key(self) -> bytes:
        """The secret that notes of this learner are signed with: made when first needed, readable by its owner."""
        if self.folder is None:
            self._key = self._key or secrets.token_bytes(32)
            return self._key
        path = self.folder / KEY
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_bytes()
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
        return path.read_bytes()

    def put(self, statistics: Statistics, task: str) -> str:
        """Store the statistics of a task and return their name, a digest of both: equal ones of two tasks are two."""
        data = to_bytes(statistics)
        return self._put(digest(data + task.encode()), data)

    def _put(self, name: str, data: bytes) -> str:
        if self.folder is None:
            self._memory[name] = data
            return name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / f"{name}.safetensors", data)
        except OSError as error:
            raise ContextError(
                f"cannot write statistics of {len(data):,} bytes to {self.folder}: {error.strerror or error}: "
                "free space, or learn without keep_statistics"
            ) from None
        return name

    def get(self, context: Context) -> Statistics:
        """The statistics that a context was computed from.

        Raises:
            ContextError: it keeps none, or they are missing or damaged.
        """
        name = statistics_name(context)
        if name is None:
            raise ContextError(
                f'task "{context.name}" keeps no statistics: learn it with method="exact", keep_statistics=True'
            )
        if self.folder is None:
            if name not in self._memory:
                raise ContextError(
                    f'statistics of task "{context.name}" are not in this learner: learn the task again here'
                )
            return from_bytes(self._memory[name])
        return read(self.folder / f"{name}.safetensors")

    def drop(self, name: str | None) -> None:
        """Remove statistics that no context needs any more."""
        if name is None:
            return
        self._memory.pop(name, None)
        if self.folder is not None:
            (self.folder / f"{name}.safetensors").unlink(missing_ok=True)

    @property
    def shared_file(self) -> Path | None:
        """Where the head over the classes of all tasks is kept; None in memory."""
        return None if self.folder is None else self.folder / f"{SHARED}.safetensors"

    def shared(self) -> bytes | None:
        """What `put_shared` stored; None where nothing was."""
        if self.shared_file is None:
            return self._memory.get(SHARED)
        try:
            return self.shared_file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ContextError(f"cannot read {self.shared_file}: {error.strerror or error}: check the file") from None

    def put_shared(self, data: bytes) -> None:
        """Store the head over the classes of all tasks, the whole of it or nothing."""
        self._put(SHARED, data)

    def copy_to(self, folder: Path, bank: Bank) -> None:
        """Write the statistics that contexts of this bank name, and the shared head, into another model folder."""
        every = [(entry.info.exact or {}).get("statistics") for entry in bank.entries()]
        named = [name for name in every if isinstance(name, str)]
        target = StatisticsStore(folder)
        if (head := self.shared()) is not None:
            target.put_shared(head)
        for name in named:
            data = self._memory.get(name) if self.folder is None else (self.folder / f"{name}.safetensors").read_bytes()
            if data is not None:
                target._put(name, data)


def statistics_name(context: Context) -> str | None:
    """The digest of the statistics that a context keeps; None where it keeps none."""
    found = (context.info.exact or {}).get("statistics")
    return found if isinstance(found, str) else None
