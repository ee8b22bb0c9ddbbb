"""Doing a run: group after group, everything kept as it comes, going on where an earlier process stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crwn.errors import ConfigError, CRWNError
from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.result import RunResult
from crwn.experiments.surroundings import machine, peak_memory, usual_threads, versions
from crwn.experiments.watcher import Watcher

if TYPE_CHECKING:
    from crwn.experiments.bench import LearnedTask
    from crwn.training import Callback, Step

MOST_THREADS = 1024
GRACE = 60.0  # seconds a task may go on past the deadline before it is stopped inside, at its last checkpoint


class OutOfTime(CRWNError):
    """The budget is used up; what is done is kept."""


def run(
    config: RunConfig,
    folder: Path,
    *,
    watcher: Watcher | None = None,
    deadline: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> RunResult:
    """Do a run in its folder, or what is left of it; a finished one is only read.

    Args:
        folder: the run's own folder (`.../seed-0`).
        watcher: who is told how it goes.
        deadline: `time.monotonic()` after which no further task begins.
        callbacks: are told every training step, like those of `Learner.learn`.

    Raises:
        ConfigError: something in the config does not exist, or the folder is damaged or holds another run.
        OutOfTime: the deadline came; the same call goes on.
    """
    watcher = watcher or Watcher()
    files = RunFolder(folder)
    done = files.result() if files.holds(config) else None
    if done is not None and not config.scenario.endswith(".toml"):
        return done
    # Names and options are checked before any folder is made.
    work = _Work(config, files, watcher, deadline, callbacks)
    if done is not None:
        work.check_data()  # a file's data are the user's own, and may have changed since
        return done
    with files.locked():
        # Another process may have been here while this one got ready.
        begun = files.holds(config)
        if begun and (done := files.result()) is not None:
            return done
        return (_Work(config, files, watcher, deadline, callbacks) if begun else work).do()


def with_size(config: RunConfig, watcher: Watcher | None = None) -> RunConfig:
    """The config with the method's default size filled in, which its folder is named after."""
    if config.size is not None:
        return config
    from crwn.experiments.bench import build

    return config.model_copy(update={"size": build(config, fetch=(watcher or Watcher()).fetching).method.size})


class _Work:
    def __init__(
        self,
        config: RunConfig,
        files: RunFolder,
        watcher: Watcher,
        deadline: float | None,
        callbacks: Sequence[Callback],
    ) -> None:
        import torch

        from crwn.experiments.bench import build

        record = files.record()
        if record is not None:
            files.check_begun(record)
        usual = 1 if config.engine == "processes" else usual_threads()
        threads = int(record["chosen"]["threads"]) if record else config.threads or usual
        if threads > MOST_THREADS:
            raise ConfigError(f"{threads} threads are more than any machine has use for: give at most {MOST_THREADS}")
        torch.set_num_threads(threads)
        if record is not None and config.tasks is None and record["chosen"].get("all_tasks"):
            # As many as there were: a later version may count more tasks in the same scenario.
            config = config.model_copy(update={"tasks": len(record["chosen"]["tasks"])})
        self.bench = build(config, fetch=watcher.fetching)
        if record is not None:  # as it was begun: what is usual may have changed since
            self.bench = replace(self.bench, recipe=files.recipe(record))
        self.given = config
        # From here on sizes and tasks are said, also where they were left to the method and the scenario.
        chosen = {"size": self.bench.method.size, "tasks": len(self.bench.scenario)}
        self.config = config.model_copy(update=chosen)
        self.files = files
        self.watcher = watcher
        self.deadline = deadline
        self.threads = threads
        self.callbacks = callbacks

    def do(self) -> RunResult:
        from crwn.compilation import find_compiler

        record = self.files.record() or self._begin()
        if record["versions"] != versions():
            self.watcher.note(f"{self.files.path} was begun with {record['versions']}, this is {versions()}")
        lines = self._resume(record)
        self.watcher.begins(self.config, len(self.bench.scenario), len(lines))
        left = [group for group in self._groups(record) if group[0] >= len(lines)]
        if left and self.bench.recipe.compile and find_compiler():
            self.watcher.note("compiling the network: its first batches take a minute or two, a few seconds next time")
        setup_seconds = float(record["chosen"]["setup_seconds"])
        method = self.bench.method
        on_workers = self.config.engine != "local" and method.independent
        if self.config.engine != "local" and not on_workers:
            place = "on Ray" if self.config.engine == "ray" else "by several processes"
            self.watcher.note(f"the tasks of {method.name} depend on each other: they are learned here, not {place}")
        while left and not (on_workers and (lines or not method.first_alone)):
            lines += self._learn(left.pop(0), setup_seconds)
        if left:
            self._learn_on_workers(left, lines, setup_seconds)
        from crwn.experiments.evaluation import final_result

        result = final_result(self.config, self.bench, lines, self.watcher)
        self.files.finish(result)
        return result

    def check_data(self) -> None:
        """Refuse a folder whose tasks are not the scenario's, or have other data by now."""
        record = self.files.record()
        assert record is not None
        if record["chosen"]["tasks"] != [task.name for task in self.bench.scenario]:
            self.files.damaged("its tasks are not those of the scenario")
        if record["chosen"].get("data") not in (None, self._data):
            self.files.damaged("the data of its tasks are not what they were when it began")

    @cached_property
    def _data(self) -> list[str]:
        from crwn.experiments.bench import data_digest

        return [data_digest(task) for task in self.bench.scenario]

    def _groups(self, record: dict[str, Any]) -> list[list[int]]:
        from crwn.experiments.bench import groups

        return groups(self.bench, int(record["chosen"]["stack_size"]))

    def _begin(self) -> dict[str, Any]:
        from crwn.experiments.shorter import take_over
        from crwn.stacking import even_size

        method = self.bench.method
        record = {
            "run": self.config.identity(),
            "chosen": {
                "tasks": [task.name for task in self.bench.scenario],
                "all_tasks": self.given.tasks is None,
                "data": self._data,
                "recipe": self.bench.recipe.model_dump(),
                "stack_size": even_size(len(self.bench.scenario), method.stack_size) if method.independent else 1,
                "threads": self.threads,
                "setup_seconds": self.bench.setup_seconds / len(self.bench.scenario),
            },
            "command": self.config.command,
            "versions": versions(),
            "machine": machine(self.threads),
            "created": _now(),
        }
        self.files.begin(record)
        usual = self.files.path in (c.folder(self.files.base) for c in (self.given, self.config))
        if usual and (shorter := take_over(self.config, self.files, self.bench, record)) is not None:
            done = len(self.files.lines())
            self.watcher.note(f"{done} task{'s are' if done > 1 else ' is'} taken over from {shorter.path}")
        return record

    def _resume(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """The lines that count, with the method put back to where they end."""
        lines = self.files.lines()
        names = [task.name for task in self.bench.scenario]
        self.check_data()
        if len(lines) > len(names):
            self.files.damaged(f"it has {len(lines)} tasks, the scenario {len(names)}")
        if self.config.matrix and any("row" not in line for line in lines):
            self.files.damaged("metrics.jsonl has a line without its row of the accuracy matrix")
        # A group counts as a whole: the kill may have come between its lines.
        ends = [0] + [group[-1] + 1 for group in self._groups(record)]
        lines = lines[: max(end for end in ends if end <= len(lines))]
        self.files.keep(lines)
        if lines:
            states, shared = self.files.learned(lines, names)
            self.bench.method.restore(states, shared)
        return lines

    def _learn(self, group: list[int], setup_seconds: float) -> list[dict[str, Any]]:
        from crwn.checkpoint import Checkpoint
        from crwn.experiments.bench import accuracy_unlearned, checkpoint_identity, learn_group

        self._check_time(group[0])
        method, scenario = self.bench.method, self.bench.scenario
        first, last = group[0], group[-1]
        before = None
        if self.config.matrix and not method.joint and len(group) == 1:
            before = accuracy_unlearned(method, scenario[first])
        names = [scenario[i].name for i in group]
        checkpoint = Checkpoint(
            self.files.state / "checkpoint.safetensors", checkpoint_identity(self.config, self.bench.recipe, names)
        )
        self.watcher.learning(first, last, 0.0)
        watching = [self._on_step(first, last), *self.callbacks]
        found = learn_group(self.bench, group, callbacks=watching, checkpoint=checkpoint)
        lines = self._keep(group, found, setup_seconds, before)
        checkpoint.clear()
        return lines

    def _learn_on_workers(self, left: list[list[int]], lines: list[dict[str, Any]], setup_seconds: float) -> None:
        from crwn.checkpoint import Checkpoint
        from crwn.experiments.on_workers import checkpoint_file, learn_on_workers

        scenario = self.bench.scenario
        watching = [self._on_steps(left), *self.callbacks]
        for group, found in learn_on_workers(
            self.bench, left, state=self.files.state, threads=self.threads, callbacks=watching
        ):
            names = [scenario[i].name for i in group]
            states = {name: dict(learned.state) for name, learned in zip(names, found, strict=True)}
            self.bench.method.restore(states, {})
            lines += self._keep(group, found, setup_seconds, None)
            Checkpoint(checkpoint_file(self.files.state, group), "").clear()
            if len(lines) < len(scenario):
                self._check_time(len(lines))

    def _on_steps(self, left: list[list[int]]) -> Callback:
        """One share for the whole run, whichever groups are under way."""
        count = len(self.bench.scenario)
        sizes = {self.bench.scenario[group[0]].name: len(group) for group in left}
        done = dict.fromkeys(sizes, 0.0)
        before = left[0][0]

        def tell(step: Step) -> None:
            if self.deadline is not None and time.monotonic() > self.deadline + GRACE:
                raise OutOfTime(f"the time is up in {self.files.path}")
            done[step.names[0]] = sizes[step.names[0]] * step.step / step.steps
            self.watcher.learning(0, count - 1, (before + sum(done.values())) / count)

        return tell

    def _check_time(self, done: int) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime(f"the time is up after {done} of {len(self.bench.scenario)} tasks in {self.files.path}")

    def _keep(
        self, group: list[int], found: list[LearnedTask], setup_seconds: float, before: float | None
    ) -> list[dict[str, Any]]:
        method, scenario, last = self.bench.method, self.bench.scenario, group[-1]
        rows: dict[int, list[float]] = {}
        if self.config.matrix:
            rows = self._matrix_rows(group, [learned.accuracy for learned in found])
        lines = []
        for learned in found:
            line: dict[str, Any] = {
                "task": learned.task,
                "name": scenario[learned.task].name,
                "accuracy": learned.accuracy,
                "setup_seconds": setup_seconds,
                "training_seconds": learned.training_seconds,
                "evaluation_seconds": learned.evaluation_seconds,
                "together_with": len(group) - 1,
                "peak_memory_bytes": peak_memory(),
                "state": self.files.write_state(f"task-{learned.task:03d}", learned.state),
                "finished": _now(),
            }
            if rows:
                line |= {"row": rows[learned.task], "accuracy_before": before}
            lines.append(line)
        shared = method.shared_state()
        if shared:
            lines[-1]["shared"] = self.files.write_state(f"shared-{last + 1:03d}", shared)
        self.files.append(lines)
        self.files.drop_shared(but=f"shared-{last + 1:03d}")
        for line in lines:
            seconds = setup_seconds + line["training_seconds"] + line["evaluation_seconds"]
            self.watcher.learned(line["task"], line["name"], line["accuracy"], seconds)
        return lines

    def _on_step(self, first: int, last: int) -> Any:
        def tell(step: Any) -> None:
            if self.deadline is not None and time.monotonic() > self.deadline + GRACE:
                raise OutOfTime(f"the time is up within task {first + 1} of {len(self.bench.scenario)}")
            self.watcher.learning(first, last, step.step / step.steps)

        return tell

    def _matrix_rows(self, group: list[int], fresh: list[float]) -> dict[int, list[float]]:
        """Accuracies of all tasks so far after each task of the group."""
        from crwn.experiments.bench import accuracy

        earlier = [accuracy(self.bench.method, task, task.test) for task in self.bench.scenario[: group[0]]]
        return {i: earlier + fresh[: place + 1] for place, i in enumerate(group)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
