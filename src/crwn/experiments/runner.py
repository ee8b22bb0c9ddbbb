"""The work of a run: group after group, everything stored as it is learned, resumed where a process stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from crwn.contexts import now
from crwn.errors import ConfigError
from crwn.experiments.config import RunConfig
from crwn.experiments.environment import commit, machine, usual_threads, versions
from crwn.experiments.evaluation import final_result
from crwn.experiments.experiment import (
    accuracy_unlearned,
    build,
    changed_defaults,
    checkpoint_identity,
    data_digest,
    groups,
    learn_group,
)
from crwn.experiments.folder import RunFolder
from crwn.experiments.progress import RunProgress
from crwn.experiments.recorder import Recorder
from crwn.experiments.result import RunResult
from crwn.experiments.run import OutOfTime
from crwn.experiments.takeover import take_over
from crwn.experiments.task_workers import checkpoint_file, learn_on_workers
from crwn.training.checkpoint import Checkpoint
from crwn.training.compilation import find_compiler
from crwn.training.loop import Callback, Step
from crwn.training.stacking import even_size

MOST_THREADS = 1024
GRACE = 60.0  # seconds a task may run past the deadline before it is stopped inside, at its last checkpoint


class Runner:
    """One run in its folder.

    Args:
        record: the content of config.json; None where the run has not begun.
        deadline: `time.monotonic()` after which no further task begins.
    """

    def __init__(
        self,
        config: RunConfig,
        files: RunFolder,
        record: dict[str, Any] | None,
        progress: RunProgress,
        deadline: float | None,
        callbacks: Sequence[Callback],
    ) -> None:
        if record is not None:
            files.check_begun(record)
        usual = 1 if config.engine == "processes" else usual_threads()
        self.threads = int(record["chosen"]["threads"]) if record else config.threads or usual
        if self.threads > MOST_THREADS:
            raise ConfigError(
                f"{self.threads} threads are more than any machine has use for: give at most {MOST_THREADS}"
            )
        torch.set_num_threads(self.threads)
        if record is not None and config.tasks is None and record["chosen"].get("all_tasks"):
            # As many as there were: a later version may count more tasks in the same scenario.
            config = config.model_copy(update={"tasks": len(record["chosen"]["tasks"])})
        self.experiment = build(config, fetch=progress.fetching)
        if record is not None:  # options and recipe it was begun with: defaults may have changed since
            if before := changed_defaults(record["chosen"], self.experiment.method):
                self.experiment = build(config.model_copy(update={"settings": config.settings | before}))
            self.experiment = replace(self.experiment, recipe=files.recipe(record))
        self.given = config
        # From here on sizes and tasks are explicit, also where they were left to the method and the scenario.
        chosen = {"size": self.experiment.method.size, "tasks": len(self.experiment.scenario)}
        self.config = config.model_copy(update=chosen)
        self.files = files
        self.progress = progress
        self.deadline = deadline
        self.callbacks = callbacks

    def run(self) -> RunResult:
        """Learn all tasks that are left, evaluate, and write the result."""
        record = self.files.record() or self._begin()
        if record["versions"] != versions():
            self.progress.note(f"{self.files.path} was begun with {record['versions']}, this is {versions()}")
        setup_seconds = float(record["chosen"]["setup_seconds"])
        recorder = Recorder(self.experiment, self.files, self.progress, setup_seconds, bool(self.config.matrix))
        lines = self._resume(record, recorder)
        self.progress.begins(self.config, len(self.experiment.scenario), len(lines))
        left = [group for group in self._groups(record) if group[0] >= len(lines)]
        if left and self.experiment.recipe.compile and find_compiler():
            self.progress.note("compiling the network: its first batches take a minute or two, a few seconds next time")
        method = self.experiment.method
        on_workers = self.config.engine != "local" and method.independent
        if self.config.engine != "local" and not on_workers:
            place = "on Ray" if self.config.engine == "ray" else "by several processes"
            self.progress.note(f"the tasks of {method.name} depend on each other: they are learned here, not {place}")
        while left and not (on_workers and (lines or not method.first_alone)):
            lines += self._learn(left.pop(0), recorder)
        if left:
            self._learn_on_workers(left, lines, recorder)
        result = final_result(self.config, self.experiment, lines, self.progress)
        self.files.finish(result)
        return result

    def check_data(self) -> None:
        """Refuse a folder whose tasks are not the scenario's, or have other data by now."""
        record = self.files.record()
        assert record is not None
        if record["chosen"]["tasks"] != self._names:
            self.files.damaged("its tasks are not those of the scenario")
        if record["chosen"].get("data") not in (None, self._data):
            self.files.damaged("the data of its tasks are not what they were when it began")

    @property
    def _names(self) -> list[str]:
        return [task.name for task in self.experiment.scenario]

    @cached_property
    def _data(self) -> list[str]:
        return [data_digest(task) for task in self.experiment.scenario]

    def _groups(self, record: dict[str, Any]) -> list[list[int]]:
        return groups(self.experiment, int(record["chosen"]["stack_size"]))

    def _begin(self) -> dict[str, Any]:
        """Write config.json, and take over the tasks of a shorter run where there is one."""
        method, count = self.experiment.method, len(self.experiment.scenario)
        record = {
            "run": self.config.identity(),
            "chosen": {
                "tasks": self._names,
                "all_tasks": self.given.tasks is None,
                "data": self._data,
                "recipe": self.experiment.recipe.model_dump(),
                "options": method.options.model_dump(mode="json"),
                "stack_size": even_size(count, method.stack_size) if method.independent else 1,
                "threads": self.threads,
                "setup_seconds": self.experiment.setup_seconds / count,
            },
            "command": self.config.command,
            "versions": versions(),
            "commit": commit(),
            "machine": machine(self.threads),
            "created": now(),
        }
        self.files.begin(record)
        usual = self.files.path in (c.folder(self.files.base) for c in (self.given, self.config))
        if usual and (shorter := take_over(self.config, self.files, self.experiment, record)) is not None:
            done = len(self.files.lines())
            self.progress.note(f"{done} task{'s are' if done > 1 else ' is'} taken over from {shorter.path}")
        return record

    def _resume(self, record: dict[str, Any], recorder: Recorder) -> list[dict[str, Any]]:
        """The lines that count, with the method restored to where they end."""
        lines = self.files.lines()
        self.check_data()
        if len(lines) > len(self._names):
            self.files.damaged(f"it has {len(lines)} tasks, the scenario {len(self._names)}")
        if self.config.matrix and any("row" not in line for line in lines):
            self.files.damaged("metrics.jsonl has a line without its row of the accuracy matrix")
        # A group counts as a whole: the kill may have come between its lines.
        ends = [0] + [group[-1] + 1 for group in self._groups(record)]
        lines = lines[: max(end for end in ends if end <= len(lines))]
        self.files.keep(lines)
        if lines:
            states = self.files.states
            self.experiment.method.restore(states.task_states(lines, self._names), states.shared_state(lines))
            recorder.store_old_contexts(lines)
        return lines

    def _learn(self, group: list[int], recorder: Recorder) -> list[dict[str, Any]]:
        self._check_time(group[0])
        method, scenario = self.experiment.method, self.experiment.scenario
        first, last = group[0], group[-1]
        before = None
        if self.config.matrix and not method.joint and len(group) == 1:
            before = accuracy_unlearned(method, scenario[first])
        identity = checkpoint_identity(self.config, self.experiment.recipe, [scenario[i].name for i in group])
        checkpoint = Checkpoint(self.files.states.path / "checkpoint.safetensors", identity)
        self.progress.learning(first, last, 0.0)

        def show(step: Step) -> None:
            self._check_grace(f"within task {first + 1} of {len(scenario)}")
            self.progress.learning(first, last, step.step / step.steps)

        found = learn_group(self.experiment, group, callbacks=[show, *self.callbacks], checkpoint=checkpoint)
        lines = recorder.write(found, before=before)
        checkpoint.clear()
        return lines

    def _learn_on_workers(self, left: list[list[int]], lines: list[dict[str, Any]], recorder: Recorder) -> None:
        scenario, state = self.experiment.scenario, self.files.states.path
        watching = [self._share_of_all(left), *self.callbacks]
        for group, found in learn_on_workers(
            self.experiment, left, state=state, threads=self.threads, callbacks=watching
        ):
            restored = {scenario[i].name: dict(learned.state) for i, learned in zip(group, found, strict=True)}
            self.experiment.method.restore(restored, {})
            lines += recorder.write(found)
            Checkpoint(checkpoint_file(state, group), "").clear()
            if len(lines) < len(scenario):
                self._check_time(len(lines))

    def _share_of_all(self, left: list[list[int]]) -> Callback:
        """A callback that reports one share for the whole run, whichever groups are under way."""
        count = len(self.experiment.scenario)
        sizes = {self.experiment.scenario[group[0]].name: len(group) for group in left}
        done = dict.fromkeys(sizes, 0.0)
        before = left[0][0]

        def show(step: Step) -> None:
            self._check_grace(f"in {self.files.path}")
            done[step.names[0]] = sizes[step.names[0]] * step.step / step.steps
            self.progress.learning(0, count - 1, (before + sum(done.values())) / count)

        return show

    def _check_time(self, done: int) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            count = len(self.experiment.scenario)
            raise OutOfTime(f"the time is up after {done} of {count} tasks in {self.files.path}")

    def _check_grace(self, where: str) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline + GRACE:
            raise OutOfTime(f"the time is up {where}")
