"""Work done by worker processes of this machine, each on cores of its own.

The products of a small network do not fill several cores, and threads of one process wait for each other after every
operation: two processes with one thread each learn more tasks in a minute than one process with two.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crwn._utils import cores
from crwn.errors import ConfigError, CRWNError
from crwn.training.engines.packing import Packer
from crwn.training.engines.progress import StepForwarder, worker_failed, workers_died
from crwn.training.engines.work import Result, Work
from crwn.training.loop import Callback


class ProcessEngine:
    """Does pieces of work on worker processes; one that dies is replaced and its work repeated.

    Callbacks receive every step of every piece, in order within a piece, without `tensors`: contexts stay in the
    worker until they are learned. Used in a `with` block the engine keeps its workers for several calls.

    Args:
        workers: how many processes; by default one for every core that a worker's threads leave.
        threads: threads of one worker.
        retries: how often the work of a worker that died is repeated.
    """

    def __init__(self, *, workers: int | None = None, threads: int = 1, retries: int = 2) -> None:
        if sys.platform == "win32":
            raise ConfigError("worker processes need Linux or macOS: learn with engine local or ray")
        for name, value in (("workers", workers), ("threads", threads)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        self.workers = workers or max(1, cores() // threads)
        self.threads = threads
        self.retries = retries
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, int]] = {}
        self._users = 0

    def run(self, work: Sequence[Work[Result]], *, callbacks: Sequence[Callback] = ()) -> Iterator[tuple[int, Result]]:
        with self, tempfile.TemporaryDirectory(prefix="crwn-") as scratch:
            packer = Packer(_Arrays(Path(scratch)).put)
            waiting = list(range(len(work)))[::-1]
            deaths: dict[int, int] = {}
            steps_of = StepForwarder(callbacks)
            while waiting or self._busy:
                while waiting and len(self._busy) < self.workers:
                    position = waiting.pop()
                    self._hand_out(position, packer, work[position], reporting=bool(callbacks))
                for ready in wait(list(self._busy)):
                    assert isinstance(ready, Connection)
                    worker, position = self._busy[ready]
                    try:
                        kind, first, steps, result = worker.receive()
                    except EOFError:
                        del self._busy[ready]
                        deaths[position] = deaths.get(position, 0) + 1
                        worker.end()
                        if deaths[position] > self.retries:
                            raise workers_died(deaths[position], f"exit code {worker.code}") from None
                        waiting.append(position)
                        continue
                    steps_of.forward(position, first, steps)
                    if kind == "steps":
                        continue
                    self._idle.append(self._busy.pop(ready)[0])
                    if kind == "failed":
                        raise worker_failed(result)
                    yield position, result

    def _hand_out(self, position: int, packer: Packer, work: Work[Any], *, reporting: bool) -> None:
        try:
            packed = packer.pack(work)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise CRWNError(f"this work cannot be sent to another process ({error}): learn with engine local") from None
        worker = self._idle.pop() if self._idle else _Worker(self.threads)
        self._busy[worker.connection] = (worker, position)
        worker.send((packed.data, packed.large, reporting))

    def __enter__(self) -> Self:
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        for worker, _position in self._busy.values():  # only where something went wrong: their work is of no use
            worker.end()
        self._busy.clear()
        if self._users == 0:
            for worker in self._idle:
                worker.end()
            self._idle.clear()


class _Worker:
    """One process, `python -m crwn.training.engines.worker`, and the pipe to it."""

    def __init__(self, threads: int) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "crwn.training.engines.worker", str(theirs.fileno()), str(threads)]
            # In a group of its own: Ctrl-C is for the process that waits, which then ends its workers.
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        self.code: int | None = None

    def send(self, message: Any) -> None:
        with suppress(OSError):  # it is dead, which is noticed when its result is read
            self.connection.send_bytes(pickle.dumps(message))

    def receive(self) -> Any:
        try:
            return pickle.loads(self.connection.recv_bytes())
        except ConnectionError:
            raise EOFError from None

    def end(self) -> None:
        self.process.kill()
        self.code = self.process.wait()
        self.connection.close()


class _Arrays:
    """Large arrays as files, which all workers map into memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def put(self, array: npt.NDArray[Any]) -> str:
        path = self.folder / f"{self.count}.npy"
        self.count += 1
        np.save(path, array)
        return str(path)
