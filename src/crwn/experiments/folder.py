"""The records of a run on disk: config.json, metrics.jsonl and result.json, whole at every moment.

The order of writes lets a killed run resume: a task's context or state, then the shared state under the number of
tasks it covers, then the lines of metrics.jsonl that make both count; only then is the older shared state removed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from crwn._utils import write_whole
from crwn.errors import ConfigError
from crwn.experiments.config import RunConfig
from crwn.experiments.result import RunResult
from crwn.experiments.states import RunStates
from crwn.training.recipe import Recipe, make_recipe

FORMAT = 1
MEASURED = ("accuracy", "setup_seconds", "training_seconds", "evaluation_seconds", "peak_memory_bytes")
START_ANEW = "delete the folder to do the run again, or give another --out"


class RunFolder:
    """The files of one run; reading records needs no torch.

    Raises:
        ConfigError: a file is damaged or missing, the folder holds another run, or another process is at work in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.states = RunStates(path, self.damaged)

    @property
    def base(self) -> Path:
        """The folder of many runs that this one is in where it has its usual name (SCENARIO/LABEL/seed-N)."""
        return self.path.parent.parent.parent

    def result(self) -> RunResult | None:
        """The stored result, or None where the run is not finished."""
        record = self._json("result.json")
        if record is None:
            return None
        try:
            found = RunResult.model_validate(record)
        except ValidationError as error:
            first = error.errors()[0]
            self.damaged(f"result.json: {'.'.join(map(str, first['loc']))}: {first['msg']}")
        self._check_result(found)
        return found

    def _check_result(self, found: RunResult) -> None:
        """Refuse a result that is another run's, or not whole."""
        record = self.record()
        if record is not None:
            run, chosen = record["run"], record["chosen"]
            for name, here, there in (
                *((key, getattr(found, key), run.get(key)) for key in ("method", "size", "seed", "settings")),
                ("tasks", found.tasks, chosen.get("tasks")),
            ):
                if there is not None and here != there:
                    self.damaged(f"result.json is another run's ({name} is {here!r} there, {there!r} in config.json)")
        for what in ("accuracy", "accuracy_after"):
            if not found.tasks or len(getattr(found, what)) != len(found.tasks):
                self.damaged(f"result.json has {len(getattr(found, what))} values of {what}, {len(found.tasks)} tasks")

    def record(self) -> dict[str, Any] | None:
        """The content of config.json, or None where nothing has begun."""
        record = self._json("config.json")
        if record is None:
            for name in ("metrics.jsonl", "result.json"):
                if (self.path / name).exists():
                    self.damaged(f"there is {name} but no config.json")
            return None
        if record.get("format") != FORMAT or not all(isinstance(record.get(key), dict) for key in ("run", "chosen")):
            self.damaged(f"config.json is not of format {FORMAT}")
        return record

    def check_begun(self, record: dict[str, Any]) -> None:
        """Refuse to resume where config.json does not hold how the run was begun."""
        for key in ("threads", "stack_size"):
            if not isinstance(record["chosen"].get(key), int) or record["chosen"][key] < 1:
                self.damaged(f"config.json has {key}: {record['chosen'].get(key)!r}")
        for part, key, kind in (
            (record, "versions", dict),
            (record["chosen"], "tasks", list),
            (record["chosen"], "setup_seconds", int | float),
        ):
            if not isinstance(part.get(key), kind):
                self.damaged(f"config.json lacks {key}")

    def recipe(self, record: dict[str, Any]) -> Recipe:
        """The recipe the run was begun with."""
        try:
            return make_recipe(**record["chosen"]["recipe"])
        except (KeyError, TypeError, ConfigError) as error:
            self.damaged(f"config.json has no usable recipe ({error})")

    def holds(self, config: RunConfig) -> bool:
        """Whether this very run has begun or is done here; another run in the folder is an error."""
        record = self.record()
        if record is None:
            return False
        wanted, there = config.identity(), record["run"]
        if config.tasks is None and record["chosen"].get("all_tasks"):
            wanted["tasks"] = None  # as many as there were, which may be fewer than usual
        # A size that was not given is whatever the run chose; tasks that were not given are all there are.
        free = {"size"} | ({"tasks"} if record["chosen"].get("all_tasks", True) else set())
        for key in sorted({*wanted, *there}):
            if wanted.get(key) != there.get(key) and not (wanted.get(key) is None and key in free):
                here = "all" if key == "tasks" and wanted.get(key) is None else repr(wanted.get(key))
                raise ConfigError(
                    f"{self.path} holds another run ({key} is {there.get(key)!r} there, {here} here): "
                    "give another --out, or delete the folder"
                )
        threads = record["chosen"].get("threads")
        if isinstance(threads, int) and config.threads not in (None, threads):
            raise ConfigError(
                f"{self.path} was begun with {threads} threads, not {config.threads}: "
                "another number of threads could change the results; leave --threads out to resume"
            )
        return True

    def begin(self, record: Mapping[str, Any]) -> None:
        self.states.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "config.json", _pretty({"format": FORMAT, **record}))

    def finish(self, result: RunResult) -> None:
        write_whole(self.path / "result.json", _pretty(result.model_dump()))

    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, one per task; a last line cut short by a kill does not count."""
        try:
            data = (self.path / "metrics.jsonl").read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            self.damaged(f"metrics.jsonl cannot be read ({error.strerror})")
        whole = data.split(b"\n")[:-1]
        lines: list[dict[str, Any]] = []
        for number, text in enumerate(whole):
            try:
                line = json.loads(text)
                if line["task"] != number:
                    self.damaged(f"line {number + 1} of metrics.jsonl is about task {line['task']}")
                for key in MEASURED:
                    if not math.isfinite(line[key]):
                        raise ValueError(f"{key} is {line[key]}")
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                if number == len(whole) - 1:
                    break
                self.damaged(f"line {number + 1} of metrics.jsonl cannot be read")
            lines.append(line)
        return lines

    def quickest(self) -> float | None:
        """Seconds of the task that took least, with set-up and evaluation: the one that was disturbed least."""
        parts = ("setup_seconds", "training_seconds", "evaluation_seconds")
        try:
            lines = self.lines()
        except ConfigError:  # the result stands, whatever became of the lines it was made from
            return None
        return min((sum(float(line[part]) for part in parts) for line in lines), default=None)

    def keep(self, lines: list[dict[str, Any]]) -> None:
        """Make metrics.jsonl hold these lines and nothing else."""
        write_whole(self.path / "metrics.jsonl", b"".join(_line(line) for line in lines))

    def append(self, lines: list[dict[str, Any]]) -> None:
        with (self.path / "metrics.jsonl").open("ab") as file:
            file.write(b"".join(_line(line) for line in lines))
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone: two processes must not do the same run at once."""
        try:
            import fcntl
        except ImportError:  # no such locks on Windows
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"another process is doing the run in {self.path}: wait for it, or stop it") from None
            for half in (*self.path.glob(".*.part"), *self.states.path.glob(".*.part")):
                half.unlink()  # of a process that was killed while it wrote
            yield

    def damaged(self, what: str) -> NoReturn:
        raise ConfigError(f"the run folder {self.path} is damaged: {what}; {START_ANEW}")

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            record = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            if self.path.exists() and not self.path.is_dir():
                raise ConfigError(f"{self.path} is a file, not a run folder: give another --out") from None
            return None
        except PermissionError:
            raise ConfigError(f"{self.path / name} may not be read by you: change its permissions") from None
        except (ValueError, OSError, RecursionError) as error:
            self.damaged(f"{name} cannot be read ({error})")
        if not isinstance(record, dict):
            self.damaged(f"{name} is not an object")
        return record


def _pretty(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()


def _line(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, allow_nan=False) + "\n").encode()
