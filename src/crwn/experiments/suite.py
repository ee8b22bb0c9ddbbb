"""Suites: the runs of one table, from suites/*.toml, and which records fill its cells."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from crwn.errors import ConfigError
from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS, RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.metrics import average, deviation
from crwn.experiments.paper import Published, published
from crwn.experiments.result import RunResult

SUITES = ("table1", "table2", "table3", "table4")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    settings: dict[str, str] = Field(default_factory=dict)
    note: str = ""


class Column(_Entry):
    """A scenario, perhaps with settings, that every row is run on."""

    key: str
    scenario: str
    reference_params: int | None = None


class Row(_Entry):
    """A method with a size; `paper` names the row of paper.toml it is compared with."""

    method: str
    size: str
    paper: str | None = None
    columns: tuple[str, ...] | None = None


class Suite(BaseModel):
    """A table: rows by columns of runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    about: str
    costs_per_column: bool = False
    column: tuple[Column, ...]
    row: tuple[Row, ...]

    def cells(self) -> Iterator[Cell]:
        """Every run of the table, in reading order."""
        for row in self.row:
            for column in self.column:
                if row.columns is None or column.key in row.columns:
                    yield Cell(self, row, column)


@dataclass(frozen=True)
class Cell:
    """One place of a table: a run with any number of seeds, and what the paper has there."""

    suite: Suite
    row: Row
    column: Column

    @property
    def published(self) -> Published | None:
        return published(self.suite.name, self.row.paper, self.column.key)

    def config(self, *, tasks: int | None = None, seed: int = 0) -> RunConfig:
        """The run of this cell; a scenario with fewer tasks than wanted takes all it has."""
        most = USUAL_TASKS[self.column.scenario]
        return RunConfig(
            scenario=self.column.scenario,
            method=self.row.method,
            size=self.row.size,
            seed=seed,
            tasks=None if tasks is None or tasks >= most else tasks,
            settings=self.row.settings | self.column.settings,
        )


@dataclass(frozen=True)
class Filled:
    """A cell with the records found for it: equal runs that differ in their seeds."""

    cell: Cell
    results: tuple[RunResult, ...]
    seconds: float | None = None  # of the quickest task

    @property
    def accuracy(self) -> float | None:
        return average([result.average_accuracy for result in self.results]) if self.results else None

    @property
    def deviation(self) -> float | None:
        return deviation([result.average_accuracy for result in self.results]) if len(self.results) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None where the runs are shorter in a way that changes what is reached."""
        paper = self.cell.published
        if self.accuracy is None or paper is None:
            return None
        scenario, first = self.cell.column.scenario, self.results[0]
        fewer = len(first.tasks) != USUAL_TASKS[scenario]
        first_trains = first.method == "batche" or first.settings.get("pretrained") == "true"
        alike = self.forgetting == 0 and not first_trains and not scenario.startswith("split")
        if first.budget != USUAL_BUDGET[scenario] or (fewer and not alike):
            # Less learned, less forgotten, nearer to the first task, which trained the weights, or easier classes.
            return None
        return self.accuracy - paper.accuracy

    @property
    def full_budget(self) -> bool:
        """Whether every task was learned for as many batches or epochs as in the paper."""
        if not self.results or self.results[0].closed_form:
            return False
        return self.results[0].budget == USUAL_BUDGET[self.cell.column.scenario]

    @property
    def in_bf16(self) -> bool:
        """Whether the runs were computed in bfloat16, which the cell does not ask for."""
        wanted = self.cell.config().settings.get("precision")
        return bool(self.results) and self.results[0].settings.get("precision", wanted) != wanted

    @property
    def forgetting(self) -> float | None:
        values = [result.forgetting for result in self.results if result.forgetting is not None]
        return average(values) if values else None

    @property
    def right_after(self) -> float | None:
        """Accuracy of the tasks right after each was learned: what the average would be without forgetting."""
        return average([average(result.accuracy_after) for result in self.results]) if self.results else None

    @property
    def unusual(self) -> str:
        """How the runs differ from the paper's protocol: "2 tasks", "25 epochs", "closed form", or not at all: ""."""
        if not self.results:
            return ""
        first = self.results[0]
        parts = []
        if len(first.tasks) != USUAL_TASKS[self.cell.column.scenario]:
            parts.append(f"{len(first.tasks)} task{'s' if len(first.tasks) != 1 else ''}")
        if not self.full_budget:
            parts.append(first.length)
        return ", ".join(parts)


def load_suite(name: str) -> Suite:
    """A suite by name."""
    if name not in SUITES:
        raise ConfigError(f"there is no suite {name!r}: choose one of {', '.join(SUITES)}")
    text = files("crwn.experiments").joinpath("suites", f"{name}.toml").read_text(encoding="utf-8")
    return Suite(name=name, **tomllib.loads(text))


def fill(cell: Cell, base: Path, *, tasks: int | None, seeds: Sequence[int] | None) -> Filled:
    """The records of a cell: those of the wanted runs, or all seeds where none are named."""
    wanted = cell.config(tasks=tasks)
    if seeds is not None:
        folders = [wanted.model_copy(update={"seed": seed}).folder(base) for seed in seeds]
        return _filled(cell, folders)
    return _all_seeds(cell, wanted, base)


def fill_best(cell: Cell, base: Path) -> Filled:
    """The most complete records of a cell: the paper's protocol, this in bfloat16, or else the longest that was run."""
    wanted = cell.config()
    for settings in (wanted.settings, wanted.settings | {"precision": "bf16"}):
        whole = _all_seeds(cell, wanted.model_copy(update={"settings": settings}), base)
        if whole.results:
            return whole
    by_folder: dict[Path, list[RunResult]] = {}
    folders: dict[Path, list[Path]] = {}
    for path in sorted((base / wanted.scenario_name).glob(f"{wanted.method}-{wanted.size}*/seed-*/result.json")):
        result = RunFolder(path.parent).result()
        if result is not None and result.settings == wanted.settings and result.size == wanted.size:
            by_folder.setdefault(path.parent.parent, []).append(result)
            folders.setdefault(path.parent.parent, []).append(path.parent)

    def completeness(results: list[RunResult]) -> tuple[bool, int, int, int]:
        first = results[0]
        (unit, length), *_ = first.budget.items()
        if unit == "batches" and "epochs" in USUAL_BUDGET[wanted.scenario]:
            length = 0  # how many epochs that is depends on the data: anything counted in epochs comes first
        # One task is a poor estimate of an average over tasks, however long it was learned.
        return len(first.tasks) > 1, len(first.tasks) * length, len(first.tasks), len(results)

    best = max(by_folder, key=lambda folder: completeness(by_folder[folder]), default=None)
    return _filled(cell, [] if best is None else folders[best])


def _all_seeds(cell: Cell, wanted: RunConfig, base: Path) -> Filled:
    return _filled(cell, sorted(wanted.folder(base).parent.glob("seed-*")))


def _filled(cell: Cell, folders: Sequence[Path]) -> Filled:
    done = [(result, RunFolder(path)) for path in folders if (result := RunFolder(path).result()) is not None]
    done.sort(key=lambda pair: pair[0].seed)
    times = [files.quickest() or result.seconds_per_task for result, files in done]
    return Filled(cell, tuple(result for result, _ in done), min(times, default=None))
