"""Going through the runs of suites: what is done, what is left and how long it takes, cheapest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crwn.errors import ConfigError, CRWNError
from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS, RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.progress import RunProgress
from crwn.experiments.run import OutOfTime, run
from crwn.experiments.suite import Suite

if TYPE_CHECKING:
    from crwn.training.loop import Step

# Rough seconds per batch of 128, where nothing like it has been run here yet; only their order matters much.
ROUGH = {
    "neuromodnet 256": 0.0016,
    "neuromodnet 512": 0.0035,
    "neuromodnet 1024": 0.0076,
    "neuromodnet 2048": 0.035,
    "neuromodnet 4096": 0.14,
    "neuromodnet 1024 hadamard": 0.004,
    "neuromodnet 4096 hadamard": 0.0087,
    "neuromodnet 16384 hadamard": 0.051,
    "neuromodnet 4096 pretrained": 0.16,
    "flynet 10d": 0.02,
    "flynet 20d": 0.04,
    "flynet 30d": 0.06,
    "flynet 40d": 0.08,
    "supsup 256": 0.008,
    "psp 256": 0.012,
    "2d": 0.7,
    "4d": 2.0,
    "6d": 4.0,
}
ROUGH_FLAT, ROUGH_IMAGES = 0.004, 0.25
# The standard ResNet-18 on 84 x 84 pixels (results/split-mini-imagenet): a task of 250 epochs takes five to nine hours.
ROUGH_LARGE = {"neuromodnet": 6.1}
ROUGH_LARGE_USUAL = 3.5
BATCHES_PER_EPOCH = 20  # 2,500 rows in batches of 128


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    config: RunConfig
    folder: Path
    tasks: int
    tasks_done: int
    is_done: bool
    seconds_left: float

    @property
    def name(self) -> str:
        return f"{self.config.scenario_name} {self.config.label} seed {self.config.seed}"


@dataclass(frozen=True)
class Outcome:
    """The runs of a plan that are finished, left over, or failed."""

    finished: list[Planned]
    left: list[Planned]
    failures: list[tuple[Planned, CRWNError]]


def plan(suites: Sequence[Suite], base: Path, *, tasks: int | None, seeds: Sequence[int]) -> list[Planned]:
    """Every run the suites need, once, the missing ones by how long they take."""
    configs: dict[Path, RunConfig] = {}
    for suite in suites:
        for cell in suite.cells():
            for seed in seeds:
                config = cell.config(tasks=tasks, seed=seed)
                configs[config.folder(base)] = config
    measured = _measured(list(configs.items()))
    planned = []
    for folder, config in configs.items():
        files = RunFolder(folder)
        count = config.tasks or USUAL_TASKS[config.scenario]
        try:
            is_done = files.holds(config) and files.result() is not None
            done = count if is_done else len(files.lines())
        except ConfigError:
            is_done, done = False, 0  # running it raises what is wrong with the folder, and stops no other run
        per_task = batches(config) * seconds_per_batch(config, measured)
        planned.append(Planned(config, folder, count, done, is_done, (count - done) * per_task))
    return sorted(planned, key=lambda run: run.seconds_left)


def carry_out_on_workers(
    planned: Sequence[Planned],
    *,
    engine: str,
    address: str | None = None,
    threads: int = 1,
    deadline: float | None = None,
    progress: RunProgress | None = None,
) -> Outcome:
    """Do the missing runs by workers (processes, or Ray's), a run each, until they or the time are at an end."""
    from crwn.experiments.run_workers import runs_on_workers

    progress = progress or RunProgress()
    todo = [item for item in planned if not item.is_done]
    total = sum(batches(item.config) * (item.tasks - item.tasks_done) for item in todo)
    finished: list[Planned] = []
    failures: list[tuple[Planned, CRWNError]] = []
    reached = 0

    def count(step: Step) -> None:
        nonlocal reached
        reached += len(step.names)
        progress.suite(reached / max(1, total), len(finished), len(todo))

    runs = [(item.config, item.folder) for item in todo]
    done = runs_on_workers(runs, engine=engine, address=address, threads=threads, deadline=deadline, callbacks=[count])
    for number, outcome in done:
        if outcome.failure is not None:
            failures.append((todo[number], CRWNError(outcome.failure)))
        elif not outcome.out_of_time:
            finished.append(todo[number])
            progress.note(f"{todo[number].name} is done, {len(finished)} of {len(todo)} runs")
        progress.suite(reached / max(1, total), len(finished), len(todo))
    over = {item.folder for item in finished} | {item.folder for item, _ in failures}
    return Outcome(finished, [item for item in todo if item.folder not in over], failures)


def carry_out(
    planned: Sequence[Planned],
    *,
    deadline: float | None = None,
    progress: RunProgress | None = None,
    begins: Callable[[Planned], None] = lambda run: None,
) -> Outcome:
    """Do the missing runs one after another until they or the time are at an end; one that fails stops no other."""
    finished: list[Planned] = []
    failures: list[tuple[Planned, CRWNError]] = []
    todo = [item for item in planned if not item.is_done]
    for place, item in enumerate(todo):
        if deadline is not None and time.monotonic() > deadline:
            return Outcome(finished, todo[place:], failures)
        begins(item)
        try:
            run(item.config, item.folder, progress=progress, deadline=deadline)
        except OutOfTime:
            return Outcome(finished, todo[place:], failures)
        except CRWNError as error:
            failures.append((item, error))
        else:
            finished.append(item)
    return Outcome(finished, [], failures)


def batches(config: RunConfig) -> int:
    """How many batches a task takes, for estimates."""
    usual = USUAL_BUDGET[config.scenario]
    if config.batches is not None:
        return config.batches
    epochs = config.epochs or usual.get("epochs")
    return epochs * BATCHES_PER_EPOCH if epochs else usual["batches"]


def seconds_per_batch(config: RunConfig, measured: dict[str, float]) -> float:
    """Estimated seconds per batch: measured for this run or one like it on another scenario, else a rough constant."""
    for key in (_key(config, scenario=True), _key(config, scenario=False)):
        if key in measured:
            return measured[key]
    if config.scenario == "split-mini-imagenet":
        return ROUGH_LARGE.get(config.method, ROUGH_LARGE_USUAL)
    structured = config.settings.get("weights") == "hadamard" or config.settings.get("recipe") == "best"
    weights = "hadamard" if structured else ""
    mode = "pretrained" if config.settings.get("pretrained") == "true" else ""
    own = f"{config.method} {config.size} {weights or mode}".strip()
    usual = ROUGH_IMAGES if config.scenario.startswith("split") else ROUGH_FLAT
    return ROUGH.get(own, ROUGH.get(f"{config.method} {config.size}", ROUGH.get(config.size or "", usual)))


def _measured(runs: Sequence[tuple[Path, RunConfig]]) -> dict[str, float]:
    """Seconds per batch of what has been run, by kind of run with and without its scenario."""
    found: dict[str, float] = {}
    for folder, config in runs:
        try:
            lines = RunFolder(folder).lines()
        except ConfigError:
            continue  # reported when the run is done
        if lines:
            last = lines[-1]  # the steady state: first tasks may do more
            seconds = float(last["training_seconds"]) + 2 * float(last["evaluation_seconds"])
            for scenario in (True, False):
                found[_key(config, scenario=scenario)] = seconds / batches(config)
    return found


def _key(config: RunConfig, *, scenario: bool) -> str:
    settings = " ".join(f"{key}={value}" for key, value in sorted(config.settings.items()))
    # Without the scenario, runs are alike whose networks are: those of the split scenarios differ.
    where = config.scenario if scenario or config.scenario.startswith("split") else "flat"
    return f"{where} {config.method} {config.size} {settings}".strip()
