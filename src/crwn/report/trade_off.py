"""Accuracy against what a task costs: the paper's Figure 3, and the same against seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crwn.experiments.suite import Filled
from crwn.report.style import GREY, TITLES, Style, families, legend_beside, protocol, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of accuracy lost: a method that forgets more is drawn as an arrow, so that the others do not share a line.
FORGETS = 5.0


def by_params(figure: Any, found: Sequence[Filled]) -> bool:
    """Draw average accuracy against parameters per task, shared ones spread over the tasks."""
    places = [cell.results[0].params_per_task_amortised for cell in found]
    return _scatter(figure, found, places, "parameters per task (shared ones spread over the tasks)", True)


def by_seconds(figure: Any, found: Sequence[Filled]) -> bool:
    """Draw average accuracy against the seconds of a run's quickest task, which other work disturbed least."""
    places = [cell.seconds or 0.0 for cell in found]
    return _scatter(figure, found, places, "seconds of the quickest task (set-up, training, evaluation)", False)


def _scatter(figure: Any, found: Sequence[Filled], places: Sequence[float], label: str, with_paper: bool) -> bool:
    axes = figure.subplots()
    at = {id(cell): x for cell, x in zip(found, places, strict=True)}
    notes = []
    shorter: set[str] = set()
    for cells in families(found).values():
        style = style_of(cells[0].cell.row.method, cells[0].cell.row.settings)
        line = sorted(((at[id(cell)], cell) for cell in cells), key=lambda point: point[0])
        own = "" if protocol(found) else protocol(cells)
        if all(_forgets(cell) for cell in cells):
            _below(axes, style, line)
            continue
        axes.plot([x for x, _ in line], [_accuracy(cell) for _, cell in line], **style.line, label=style.label + own)
        axes.errorbar(
            [x for x, _ in line],
            [_accuracy(cell) for _, cell in line],
            yerr=[cell.deviation or 0.0 for _, cell in line],
            capsize=2,
            linestyle="none",
            color=style.colour,
        )
        starred = {id(cell) for cell in cells if cell.unusual and not own and not protocol(found)}
        shorter |= {cell.unusual for cell in cells if id(cell) in starred}
        if len(line) > 1:
            _sizes(axes, style, line, starred)
        if with_paper:
            _paper(axes, style, line)
    if shorter:
        lengths = ", ".join(sorted(shorter, key=lambda text: (len(text), text)))
        notes += axes.plot([], [], " ", label=f"*: {lengths} only")
    if with_paper:
        hollow = {"markerfacecolor": "none", "markeredgecolor": GREY, "markersize": 9}
        whole = ", at full length" if protocol(found) else ""
        notes += axes.plot([], [], "o", **hollow, label=f"hollow: the paper{whole}")
    _cost_axis(axes, label)
    axes.set_ylabel("average test accuracy (%)")
    scenario = found[0].cell.column.scenario
    axes.set_title(f"{TITLES.get(scenario, scenario)}{protocol(found)}")
    legend_beside(axes, notes)
    return True


def _sizes(axes: Axes, style: Style, line: Sequence[tuple[float, Filled]], starred: set[int]) -> None:
    """Write its size beside every point: above the line of the best recipe, below the others."""
    if "hadamard" in style.label.lower() and len(line) < 3:
        return  # these stand on points of the dense network, which have their size
    above = "best" in style.label
    for x, cell in line:
        axes.annotate(
            f"{cell.cell.row.size}{'*' if id(cell) in starred else ''}",
            (x, _accuracy(cell)),
            xytext=(0, 7) if above else (3, -15),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=style.colour,
        )


def _paper(axes: Axes, style: Style, line: Sequence[tuple[float, Filled]]) -> None:
    """Draw the paper's points as hollow marks."""
    theirs = [(x, cell.cell.published) for x, cell in line]
    known = [(paper.params_per_task(x), paper.accuracy) for x, paper in theirs if paper is not None]
    axes.plot(
        [x for x, _ in known],
        [y for _, y in known],
        linestyle="none",
        marker=style.marker,
        markerfacecolor="none",
        markeredgecolor=GREY,
        markersize=9,
    )


def _below(axes: Axes, style: Style, line: Sequence[tuple[float, Filled]]) -> None:
    """Write a method that forgets at the foot of the axes, with its accuracy and the paper's."""
    for x, cell in line:
        paper = f" (the paper: {cell.cell.published.accuracy:.1f})" if cell.cell.published else ""
        axes.plot(x, 0.02, color=style.colour, marker=style.marker, transform=axes.get_xaxis_transform())
        axes.annotate(
            f"{style.label} {_accuracy(cell):.1f} ↓{paper}",
            (x, 0.02),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-7, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=7.5,
            color=style.colour,
        )


def _cost_axis(axes: Axes, label: str) -> None:
    """Scale the x-axis by logarithms; within one power of ten plain numbers stand at the ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_xlabel(label)
    low, high = axes.get_xlim()
    if high < 10 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())


def _accuracy(cell: Filled) -> float:
    return cell.accuracy or 0.0


def _forgets(cell: Filled) -> bool:
    return (cell.forgetting or 0.0) > FORGETS
