"""Finished runs under a folder, the seeds of one run together, with the paper's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from crwn.errors import ConfigError
from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS
from crwn.experiments.folder import RunFolder
from crwn.experiments.metrics import average, deviation
from crwn.experiments.paper import Published
from crwn.experiments.result import RunResult
from crwn.experiments.suite import SUITES, load_suite
from crwn.report.style import method_label


@dataclass(frozen=True)
class Run:
    """One finished run: its folder, config.json and result.json."""

    folder: Path
    record: dict[str, Any]
    result: RunResult


@dataclass(frozen=True)
class Group:
    """The seeds of one run."""

    runs: list[Run]
    paper: Published | None
    label: str

    @property
    def first(self) -> RunResult:
        return self.runs[0].result

    @property
    def results(self) -> list[RunResult]:
        return [run.result for run in self.runs]

    @property
    def method(self) -> str:
        return self.first.method

    @property
    def scenario(self) -> str:
        return self.first.scenario

    @cached_property
    def accuracy(self) -> float:
        return average([result.average_accuracy for result in self.results])

    @cached_property
    def spread(self) -> float | None:
        values = [result.average_accuracy for result in self.results]
        return deviation(values) if len(values) > 1 else None

    @cached_property
    def forgetting(self) -> float | None:
        found = [result.forgetting for result in self.results if result.forgetting is not None]
        return average(found) if found else None

    @cached_property
    def seconds(self) -> float:
        """Seconds of the quickest task: others may have shared the machine, or waited while a run was paused."""
        times = [RunFolder(run.folder).quickest() or run.result.seconds_per_task for run in self.runs]
        return min(times)

    @property
    def per_task(self) -> list[float]:
        """Accuracy of each task after the last one, the mean over seeds."""
        return means_per_task(self.results)

    @property
    def lost(self) -> list[float]:
        """Points each task lost from right after it was learned to the end, the mean over seeds."""
        pairs = [[a - b for a, b in zip(r.accuracy_after, r.accuracy, strict=True)] for r in self.results]
        return [average(list(values)) for values in zip(*pairs, strict=True)]

    @property
    def difference(self) -> float | None:
        """Points above the paper, for runs that follow its protocol."""
        return None if self.paper is None or self.short else self.accuracy - self.paper.accuracy

    @property
    def short(self) -> str:
        """How the run is shorter than the paper's; empty where it is not."""
        parts = []
        tasks, usual = len(self.first.tasks), USUAL_TASKS.get(self.scenario)
        if usual is not None and tasks != usual:
            parts.append(f"{tasks} of {usual} tasks")
        budget = USUAL_BUDGET.get(self.scenario)
        if budget is not None and (self.first.closed_form or self.first.budget != budget):
            parts.append(self.first.length)
        return ", ".join(parts)


def read_groups(base: Path) -> list[Group]:
    """Return all finished runs under a folder, at any depth: the scenario with most runs first, then the best run.

    Raises:
        ConfigError: there is no such folder, or a record is damaged.
    """
    if not base.is_dir():
        raise ConfigError(f"there is no folder {base}: give the folder that `crwn run` or `crwn reproduce` wrote to")
    by_run: dict[tuple[object, ...], list[Run]] = {}
    for run in _runs(base):
        result = run.result
        settings = tuple(sorted(result.settings.items()))
        budget = tuple(result.budget.items())
        data = run.record["run"].get("scenario_sha256")  # two files of one name
        key = (result.scenario, data, result.method, result.size, settings, tuple(result.tasks), budget)
        by_run.setdefault(key, []).append(run)
    printed = _published()
    groups = []
    for runs in by_run.values():
        # The same seed may be there twice, plain and with --matrix, which holds more: one of them counts.
        plain_first = sorted(runs, key=lambda run: run.result.matrix is not None)
        one_each = list({run.result.seed: run for run in plain_first}.values())
        first = one_each[0].result
        identity = (first.scenario, first.method, first.size, tuple(sorted(first.settings.items())))
        groups.append(Group(sorted(one_each, key=lambda run: run.result.seed), printed.get(identity), _label(first)))
    sizes = Counter(group.scenario for group in groups)
    return sorted(groups, key=lambda group: (-sizes[group.scenario], group.scenario, -group.accuracy))


def means_per_task(results: Sequence[RunResult]) -> list[float]:
    """Return the mean over seeds of each task's accuracy at the end."""
    return [average(values) for values in zip(*(result.accuracy for result in results), strict=True)]


def _runs(base: Path) -> Iterator[Run]:
    for path in sorted(base.rglob("result.json")):
        files = RunFolder(path.parent)
        record = files.record()
        if record is not None and (result := files.result()) is not None:  # without config.json it is not a run
            yield Run(path.parent, record, result)


def _published() -> dict[tuple[object, ...], Published]:
    found: dict[tuple[object, ...], Published] = {}
    for name in SUITES:
        for cell in load_suite(name).cells():
            settings = tuple(sorted((cell.row.settings | cell.column.settings).items()))
            key = (cell.column.scenario, cell.row.method, cell.row.size, settings)
            if cell.published is not None:
                found.setdefault(key, cell.published)
    return found


def _label(result: RunResult) -> str:
    settings = ", ".join(
        value if key in ("weights", "schedule") else f"{key}={value}" for key, value in sorted(result.settings.items())
    )
    return f"{method_label(result.method)} {result.size}" + (f" ({settings})" if settings else "")
