"""Figures from run records, as PNG and SVG, readable in print and by the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS
from crwn.experiments.folder import RunFolder
from crwn.experiments.result import RunResult
from crwn.experiments.suite import Column, Filled, Suite, fill, fill_best, load_suite
from crwn.report.ablation import ablation
from crwn.report.pretrained import pretrained
from crwn.report.records import means_per_task
from crwn.report.style import TITLES, families, legend_beside, method_label, protocol, saved, style_of, task_axis
from crwn.report.trade_off import by_params, by_seconds

Paint = Callable[[Any], bool]
FORGETTING = ("finetune", "ewc", "replay")
FEWEST = 2  # families of runs that a figure compares
FEWEST_RUNS = 3  # that a figure compares: two points show less than a table


def draw_all(base: Path, folder: Path, *, tasks: int | None = None) -> list[Path]:
    """Draw every figure that the records under `base` suffice for.

    Args:
        tasks: use runs of this many tasks; the most complete ones by default.

    Returns:
        The files written.
    """
    figures: dict[str, tuple[tuple[float, float], Paint]] = {}
    for name in ("table1", "table2"):
        suite = load_suite(name)
        filled = _filled(suite, base, tasks)
        for column in suite.column:
            figures |= _of_scenario(column, [cell for cell in filled if cell.cell.column == column and cell.results])
    figures["pretrained"] = (10.5, 4.2), partial(pretrained, filled=_filled(load_suite("table4"), base, tasks))
    figures["ablation"] = (11.5, 4.6), partial(ablation, filled=_filled(load_suite("table3"), base, tasks))
    for result in _with_matrix(base):
        figures[_matrix_name(result)] = (6.4, 5.4), partial(accuracy_matrix, result=result)
    return [path for name, (size, paint) in figures.items() for path in saved(folder / name, size, paint)]


def _of_scenario(column: Column, found: Sequence[Filled]) -> dict[str, tuple[tuple[float, float], Paint]]:
    """Return the figures of one scenario, by the names of their files; each shows runs of one length only."""
    figures: dict[str, tuple[tuple[float, float], Paint]] = {}
    for short, cells in _by_length(found).items():
        name = column.scenario + ("-" + re.sub("[^a-z0-9]+", "-", short) if short else "")
        # Methods that forget would squeeze all others into a line at the top: they have a figure of their own.
        steady = [cell for cell in cells if cell.cell.row.method not in FORGETTING]
        if len(families(steady)) >= FEWEST and len(steady) >= FEWEST_RUNS:
            figures[f"accuracy-per-task-{name}"] = (9.5, 4.6), partial(per_task, found=steady)
            figures[f"accuracy-and-parameters-{name}"] = (9.0, 4.8), partial(by_params, found=steady)
            figures[f"accuracy-and-seconds-{name}"] = (9.0, 4.8), partial(by_seconds, found=steady)
        if len(steady) < len(cells):
            compared = [cell for cell in cells if cell.cell.row.method in (*FORGETTING, "psp", "neuromodnet")]
            figures[f"forgetting-{name}"] = (9.5, 4.6), partial(per_task, found=compared)
    return figures


def _by_length(found: Sequence[Filled]) -> dict[str, list[Filled]]:
    """Return the cells by how they differ from the paper's protocol, those that follow it first."""
    lengths: dict[str, list[Filled]] = {}
    for cell in sorted(found, key=lambda cell: bool(cell.unusual)):
        lengths.setdefault(cell.unusual, []).append(cell)
    return lengths


def per_task(figure: Any, found: Sequence[Filled]) -> bool:
    """Draw the test accuracy of each task after learning all (the paper's Figure 2).

    One line a method: its largest network.
    """
    axes = figure.subplots()
    count = len(found[0].results[0].tasks)
    for cells in families(found).values():
        row = cells[-1].cell.row
        means = means_per_task(cells[-1].results)
        style = style_of(row.method, row.settings)
        axes.plot(range(1, count + 1), means, **style.line, markevery=max(1, count // 12), label=row.label)
    axes.set_ylabel("test accuracy after the last task (%)")
    scenario = found[0].cell.column.scenario
    axes.set_title(f"{TITLES.get(scenario, scenario)}{protocol(found)}: accuracy of each task after learning all")
    task_axis(axes, count)
    legend_beside(axes)
    return True


def accuracy_matrix(figure: Any, result: RunResult) -> bool:
    """Draw the accuracy of task j (across) after learning task k (down)."""
    import numpy as np

    rows = result.matrix or []
    grid = np.full((len(rows), len(rows)), np.nan)
    for k, row in enumerate(rows):
        grid[k, : len(row)] = row
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="cividis", vmin=min(50.0, float(np.nanmin(grid))), vmax=100.0)
    if len(rows) <= 12:
        for k, row in enumerate(rows):
            for j, value in enumerate(row):
                colour = "white" if value < 75 else "black"
                axes.text(j, k, f"{value:.0f}", ha="center", va="center", fontsize=8, color=colour)
    axes.grid(visible=False)
    axes.set_xlabel("tested on task")
    axes.set_ylabel("after learning task")
    ticks = range(0, len(rows), max(1, len(rows) // 9))
    axes.set_xticks(ticks, [str(i + 1) for i in ticks])
    axes.set_yticks(ticks, [str(i + 1) for i in ticks])
    axes.set_title(f"{method_label(result.method)} {result.size}, {result.scenario}, seed {result.seed}")
    figure.colorbar(image, label="test accuracy (%)")
    return True


def _matrix_name(result: RunResult) -> str:
    """Return a file name that tells runs of other settings, tasks and lengths apart."""
    count = len(result.tasks)
    short = f"-tasks={count}" if count != USUAL_TASKS.get(result.scenario, count) else ""
    if result.budget != USUAL_BUDGET.get(result.scenario, result.budget):
        short += "".join(f"-{name}={value}" for name, value in result.budget.items())
    settings = "".join(f"-{key}={value}" for key, value in sorted(result.settings.items()))
    what = f"{result.scenario}-{result.method}-{result.size}{short}{settings}"
    return f"accuracy-matrix-{re.sub('[^A-Za-z0-9=_-]', '_', what)}-seed-{result.seed}"


def _filled(suite: Suite, base: Path, tasks: int | None) -> list[Filled]:
    if tasks is None:
        return [fill_best(cell, base) for cell in suite.cells()]
    return [fill(cell, base, tasks=tasks, seeds=None) for cell in suite.cells()]


def _with_matrix(base: Path) -> list[RunResult]:
    found = [RunFolder(path.parent).result() for path in sorted(base.glob("*/*-matrix*/seed-*/result.json"))]
    return [result for result in found if result is not None and result.matrix]
