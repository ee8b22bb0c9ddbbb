"""Whole runs on Ray's workers: what a folder holds travels to a worker, and comes back with what was done."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crwn.engine.on_ray import RayEngine
from crwn.errors import CRWNError
from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder, write_whole
from crwn.experiments.run import OutOfTime, run
from crwn.training import Callback

# The last one says that all others are there.
ORDER = ("config.json", "metrics.jsonl", "result.json")


@dataclass(frozen=True)
class RunPiece:
    """A run, what is done of it, and the time (`time.time()`) after which no further task begins."""

    config: RunConfig
    files: dict[str, bytes]
    until: float | None


@dataclass(frozen=True)
class RunDone:
    """What the run's folder holds now; the reason where it is not finished."""

    files: dict[str, bytes]
    failure: str | None = None
    out_of_time: bool = False


def runs_on_workers(
    runs: Sequence[tuple[RunConfig, Path]],
    *,
    address: str | None,
    threads: int,
    deadline: float | None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[tuple[int, RunDone]]:
    """Do the runs on workers of `threads` threads each: the number and outcome of every run, its folder written."""
    until = None if deadline is None else time.time() + deadline - time.monotonic()
    pieces = [
        RunPiece(config.model_copy(update={"engine": "local", "threads": threads}), files_of(folder), until)
        for config, folder in runs
    ]
    engine = RayEngine(address=address, threads=threads)
    for number, done in engine.each(do_run, pieces, callbacks=callbacks):
        try:
            put_back(runs[number][1], done.files)
        except CRWNError as error:  # another process has the folder: the other runs go on
            done = replace(done, failure=str(error))
        yield number, done


def do_run(piece: RunPiece, callbacks: Sequence[Callback]) -> RunDone:
    """What a worker does: the run in a folder of its own."""
    failure, late = None, False
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        put_back(folder, piece.files)
        deadline = None if piece.until is None else time.monotonic() + piece.until - time.time()
        try:
            run(piece.config, folder, deadline=deadline, callbacks=callbacks)
        except OutOfTime:
            late = True
        except CRWNError as error:
            failure = str(error)
        return RunDone(files_of(folder), failure, late)


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
