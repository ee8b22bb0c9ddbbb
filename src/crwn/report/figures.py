"""Figures from run records, as PNG and SVG: readable in print, and by the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS
from crwn.experiments.folder import RunFolder
from crwn.experiments.metrics import average
from crwn.experiments.result import RunResult
from crwn.experiments.suite import Filled, Suite, fill, fill_best, load_suite
from crwn.report.pretrained import means_per_task, pairs
from crwn.report.style import COLOURS, GREY, families, saved, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORGETTING = ("finetune", "ewc", "replay")


def draw_all(base: Path, folder: Path, *, tasks: int | None = None) -> list[Path]:
    """Every figure the records under `base` suffice for; returns the files written."""
    tables = {name: _filled(load_suite(name), base, tasks) for name in ("table1", "table2", "table3", "table4")}
    written: list[Path] = []

    def draw(name: str, size: tuple[float, float], paint: Callable[[Any], bool]) -> None:
        written.extend(saved(folder / name, size, paint))

    for table in ("table1", "table2"):
        for column in load_suite(table).column:
            found = [cell for cell in tables[table] if cell.cell.column == column and cell.results]
            # Methods that forget would squeeze all others into a line at the top: they have a figure of their own.
            steady = [cell for cell in found if cell.cell.row.method not in FORGETTING]
            forgetful = [cell for cell in found if cell.cell.row.method in (*FORGETTING, "psp", "neuromodnet")]
            place = column.scenario
            if steady:
                level = [cell for cell in steady if cell.cell.row.method != "psp"]
                draw(f"accuracy-per-task-{place}", (9.5, 4.6), partial(per_task, found=level or steady))
                draw(f"accuracy-and-numbers-{place}", (9.0, 4.8), partial(by_numbers, found=steady))
                draw(f"accuracy-and-seconds-{place}", (9.0, 4.8), partial(by_seconds, found=steady))
            if len(steady) < len(found):
                draw(f"forgetting-{place}", (9.5, 4.6), partial(per_task, found=forgetful))
    draw("pretrained", (8.5, 4.2), partial(pretrained, filled=tables["table4"]))
    draw("ablation", (11.5, 4.6), partial(ablation, filled=tables["table3"]))
    for result in _with_matrix(base):
        settings = "".join(f"-{key}={value}" for key, value in sorted(result.settings.items()))
        count = len(result.tasks)
        short = f"-tasks={count}" if count != USUAL_TASKS.get(result.scenario, count) else ""
        if result.budget != USUAL_BUDGET.get(result.scenario, result.budget):
            short += "".join(f"-{name}={value}" for name, value in result.budget.items())
        what = f"{result.scenario}-{result.method}-{result.size}{short}{settings}"
        name = f"accuracy-matrix-{re.sub('[^A-Za-z0-9=_-]', '_', what)}-seed-{result.seed}"
        draw(name, (6.4, 5.4), partial(accuracy_matrix, result=result))
    return written


def per_task(figure: Any, found: Sequence[Filled]) -> bool:
    """Test accuracy of each task after learning all (the paper's Figure 2): one line a method, its largest network."""
    axes = figure.subplots()
    for cells in families(found).values():
        cell = cells[-1]
        style = style_of(cell)
        means = means_per_task(cell)
        axes.plot(
            range(1, len(means) + 1), means, **style.line, markevery=max(1, len(means) // 12), label=_labelled(cell)
        )
    axes.set_xlabel("task, in the order they were learned")
    axes.set_ylabel("test accuracy after the last task (%)")
    axes.set_title(f"{found[0].cell.column.label}: accuracy of each task after learning all")
    _whole_numbers(axes)
    _legend_beside(axes)
    return True


def by_numbers(figure: Any, found: Sequence[Filled]) -> bool:
    """Average accuracy against learned numbers per task (the paper's Figure 3)."""
    return _scatter(
        figure,
        found,
        [cell.results[0].params_per_task_amortised for cell in found],
        "learned numbers per task (shared ones spread over the tasks)",
    )


def by_seconds(figure: Any, found: Sequence[Filled]) -> bool:
    """Average accuracy against the seconds a task takes here: those of the quickest, which was disturbed least."""
    return _scatter(
        figure,
        found,
        [cell.seconds or 0.0 for cell in found],
        "seconds of the quickest task (set-up, training, evaluation)",
        False,
    )


def _scatter(figure: Any, found: Sequence[Filled], xs: Sequence[float], axis: str, with_paper: bool = True) -> bool:
    axes = figure.subplots()
    place = {id(cell): x for cell, x in zip(found, xs, strict=True)}
    lengths: set[str] = set()
    for cells in families(found).values():
        style = style_of(cells[0])
        short = "" if _protocol(found) else _protocol(cells)
        line = sorted(((place[id(cell)], cell) for cell in cells), key=lambda pair: pair[0])
        points = [(x, cell.accuracy or 0.0) for x, cell in line]
        spread = [cell.deviation or 0.0 for _, cell in line]
        axes.errorbar(
            [x for x, _ in points],
            [y for _, y in points],
            yerr=spread,
            capsize=2,
            **style.line,
            label=style.label + short,
        )
        if len(line) > 1:
            for x, cell in line:
                starred = cell.unusual and not short and not _protocol(found)
                lengths |= {cell.unusual} if starred else set()
                axes.annotate(
                    f"{cell.cell.row.size}{'*' if starred else ''}",
                    (x, cell.accuracy or 0.0),
                    xytext=(0, -13 if "hadamard" in style.label.lower() else 6),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7,
                    color=style.colour,
                )
        if with_paper:
            theirs = [(x, cell.cell.published) for x, cell in line]
            hollow = [(paper.numbers(x), paper.accuracy) for x, paper in theirs if paper is not None]
            axes.plot(
                [x for x, _ in hollow],
                [y for _, y in hollow],
                linestyle="none",
                marker=style.marker,
                markerfacecolor="none",
                markeredgecolor=GREY,
                markersize=9,
            )
    if lengths:
        axes.plot([], [], " ", label=f"*: {', '.join(sorted(lengths, key=lambda text: (len(text), text)))} only")
    if with_paper:
        axes.plot([], [], "o", markerfacecolor="none", markeredgecolor=GREY, markersize=9, label="hollow: the paper")
    axes.set_xscale("log")
    axes.set_xlabel(axis)
    axes.set_ylabel("average test accuracy (%)")
    axes.set_title(f"{found[0].cell.column.label}{_protocol(found)}")
    _legend_beside(axes)
    return True


def pretrained(figure: Any, filled: Sequence[Filled]) -> bool:
    """Accuracy per task with the shared weights learned on the first task, and with random ones."""
    found = pairs(filled)
    if not found:
        return False
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, pair in zip(panels, found, strict=True):
        with_it, without = pair.per_task
        for means, name, colour, marker, dash in (
            (with_it, "with pretrained mode", COLOURS["vermillion"], "s", "--"),
            (without, "without (random weights)", COLOURS["blue"], "o", "-"),
        ):
            axes.plot(
                range(1, len(means) + 1),
                means,
                color=colour,
                marker=marker,
                linestyle=dash,
                markersize=4,
                label=f"{name}: mean {average(means):.2f}%",
            )
        cell = pair.pretrained
        axes.set_title(f"NeuroModNet-{pair.name}, {cell.cell.column.label}{_protocol([cell])}")
        axes.set_xlabel("task, in the order they were learned")
        axes.legend(fontsize=8, loc="best")
        _whole_numbers(axes)
    panels[0].set_ylabel("test accuracy after the last task (%)")
    return True


def ablation(figure: Any, filled: Sequence[Filled]) -> bool:
    """Bars of what local and global modulation reach together and alone, and the paper's numbers on them."""
    rows = [label for label in dict.fromkeys(f.cell.row.label for f in filled) if _row(filled, label)]
    if not rows:
        return False
    axes = figure.subplots()
    everything = [cell for row in rows for cell in _row(filled, row).values()]
    looks = {
        "both": (COLOURS["blue"], "", "local + global"),
        "local": (COLOURS["orange"], "///", "local only"),
        "global": (COLOURS["green"], "...", "global only"),
    }
    for shift, (key, (colour, hatch, name)) in enumerate(looks.items()):
        cells = [(i, cell) for i, row in enumerate(rows) if (cell := _row(filled, row).get(key)) is not None]
        if not cells:
            continue
        places = [i + (shift - 1) * 0.27 for i, _ in cells]
        heights = [cell.accuracy or 0.0 for _, cell in cells]
        spread = [cell.deviation or 0.0 for _, cell in cells]
        if key == "global":  # far below the others: said in words at the foot of the axis
            for x, height in zip(places, heights, strict=True):
                axes.text(
                    x,
                    0.02,
                    f"global only: {height:.1f} ↓",
                    rotation=90,
                    ha="center",
                    fontsize=7,
                    color=colour,
                    transform=axes.get_xaxis_transform(),
                )
            continue
        axes.bar(places, heights, 0.25, yerr=spread, color=colour, hatch=hatch, edgecolor="white", label=name, zorder=2)
        for x, (_, cell) in zip(places, cells, strict=True):
            if cell.unusual and not _protocol(everything):
                axes.text(
                    x, cell.accuracy or 0.0, f" {cell.unusual}", rotation=90, ha="center", va="bottom", fontsize=6.5
                )
        theirs = [(x, cell.cell.published) for x, (_, cell) in zip(places, cells, strict=True)]
        known = [(x, paper.accuracy) for x, paper in theirs if paper is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], "D", color="black", markersize=4, zorder=3)
    axes.plot([], [], "D", color="black", markersize=4, label="the paper")
    shown = [cell.accuracy or 0.0 for row in rows for key, cell in _row(filled, row).items() if key != "global"]
    lowest = min(shown, default=0.0)
    axes.set_ylim(bottom=max(0.0, lowest - 4), top=min(100.0, max(shown, default=100.0) + 1.5))
    axes.set_xticks(range(len(rows)), [row.replace("-", "\n") for row in rows], fontsize=7.5)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("average test accuracy (%)")
    axes.set_title(f"Local and global modulation, Rotation-MNIST{_protocol(everything)}")
    axes.text(0.005, 0.985, "the axis does not start at 0", transform=axes.transAxes, fontsize=7, va="top", color=GREY)
    _legend_beside(axes)
    return True


def accuracy_matrix(figure: Any, result: RunResult) -> bool:
    """Accuracy of task j (across) after learning task k (down)."""
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
                dark = value < 75
                axes.text(
                    j, k, f"{value:.0f}", ha="center", va="center", fontsize=8, color="white" if dark else "black"
                )
    axes.grid(visible=False)
    axes.set_xlabel("tested on task")
    axes.set_ylabel("after learning task")
    ticks = range(0, len(rows), max(1, len(rows) // 9))
    axes.set_xticks(ticks, [str(i + 1) for i in ticks])
    axes.set_yticks(ticks, [str(i + 1) for i in ticks])
    axes.set_title(f"{result.method} {result.size} on {result.scenario}, seed {result.seed}")
    figure.colorbar(image, label="test accuracy (%)")
    return True


def _filled(suite: Suite, base: Path, tasks: int | None) -> list[Filled]:
    if tasks is None:
        return [fill_best(cell, base) for cell in suite.cells()]
    return [fill(cell, base, tasks=tasks, seeds=None) for cell in suite.cells()]


def _with_matrix(base: Path) -> list[RunResult]:
    found = [RunFolder(path.parent).result() for path in sorted(base.glob("*/*-matrix*/seed-*/result.json"))]
    return [result for result in found if result is not None and result.matrix]


def _row(filled: Sequence[Filled], label: str) -> dict[str, Filled]:
    return {f.cell.column.key: f for f in filled if f.cell.row.label == label and f.results}


def _labelled(cell: Filled) -> str:
    return cell.cell.row.label + (f" ({cell.unusual})" if cell.unusual else "")


def _protocol(found: Sequence[Filled]) -> str:
    """What differs from the paper's protocol in all of them alike; empty where that is nothing."""
    unusual = {cell.unusual for cell in found}
    return f" ({unusual.pop()})" if len(unusual) == 1 and unusual != {""} else ""


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend_beside(axes: Axes) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
