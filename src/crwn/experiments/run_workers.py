"""Whole runs by workers.

Processes of this machine work in the folder of the run. Ray's workers get a copy of its files, and return the new ones.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crwn._utils import write_whole
from crwn.errors import CRWNError
from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.run import OutOfTime, run
from crwn.training.engines import make_engine
from crwn.training.loop import Callback

# In this order: the last one marks that all others are there.
ORDER = ("config.json", "metrics.jsonl", "result.json")


@dataclass(frozen=True)
class RunWork:
    """A run, the time (`time.time()`) after which no further task begins, and its folder or what is done of it."""

    config: RunConfig
    until: float | None
    folder: Path | None
    files: dict[str, bytes]

    def do(self, callbacks: Sequence[Callback] = ()) -> RunDone:
        """Do the run in its folder, or in one that is made here from the files that were sent."""
        if self.folder is not None:
            return self._in(self.folder, callbacks)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "run"
            put_back(folder, self.files)
            return replace(self._in(folder, callbacks), files=files_of(folder))

    def _in(self, folder: Path, callbacks: Sequence[Callback]) -> RunDone:
        deadline = None if self.until is None else time.monotonic() + self.until - time.time()
        try:
            run(self.config, folder, deadline=deadline, callbacks=callbacks)
        except OutOfTime:
            return RunDone({}, out_of_time=True)
        except CRWNError as error:
            return RunDone({}, failure=str(error))
        return RunDone({})


@dataclass(frozen=True)
class RunDone:
    """The files of a run folder that a worker sends back, and the reason if the run is not finished."""

    files: dict[str, bytes]
    failure: str | None = None
    out_of_time: bool = False


def runs_on_workers(
    runs: Sequence[tuple[RunConfig, Path]],
    *,
    engine: str,
    address: str | None,
    threads: int,
    deadline: float | None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[tuple[int, RunDone]]:
    """Do the runs on workers of `threads` threads each: the number and outcome of every run, its folder written."""
    until = None if deadline is None else time.time() + deadline - time.monotonic()
    pieces = []
    for config, folder in runs:
        begun = RunFolder(folder).record() is not None  # then it resumes with the threads it was begun with
        alone = config.model_copy(update={"engine": "local", "threads": None if begun else threads})
        here = engine == "processes"
        pieces.append(RunWork(alone, until, folder.resolve() if here else None, {} if here else files_of(folder)))
    for number, done in make_engine(engine, threads=threads, address=address).run(pieces, callbacks=callbacks):
        try:
            put_back(runs[number][1], done.files)
        except CRWNError as error:  # another process has the folder: the other runs go on
            done = replace(done, failure=str(error))
        yield number, done


def files_of(folder: Path) -> dict[str, bytes]:
    """What a run's folder holds, by relative path; empty where there is none."""
    kept = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]  # no locks
    return {str(file.relative_to(folder)): file.read_bytes() for file in kept}


def put_back(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what a run's folder held, its result last."""
    if not files:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).locked():
        for name in sorted(files, key=lambda name: (name in ORDER, ORDER.index(name) if name in ORDER else 0)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, files[name])
