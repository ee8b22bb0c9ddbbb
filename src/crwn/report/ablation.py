"""What local and global modulation contribute, as bars (the paper's Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crwn.experiments.suite import Filled
from crwn.report.style import COLOURS, GREY, legend_beside, protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colour, hatch and name of what is left on; alpha alone reaches far less and is written in words.
PARTS = {
    "both": (COLOURS["blue"], "", "local + global"),
    "local": (COLOURS["orange"], "///", "local only"),
    "global": (COLOURS["green"], "...", "global only"),
}
WIDTH = 0.27


def ablation(figure: Any, filled: Sequence[Filled]) -> bool:
    """Draw a bar for every variant, and the paper's accuracy on it."""
    by_row = {label: _row(filled, label) for label in dict.fromkeys(cell.cell.row.label for cell in filled)}
    rows = {label: cells for label, cells in by_row.items() if cells}
    if not rows:
        return False
    axes = figure.subplots()
    everything = [cell for cells in rows.values() for cell in cells.values()]
    for shift, part in enumerate(PARTS):
        found = [
            (at + (shift - 1) * WIDTH, cells[part])
            for at, cells in enumerate(rows.values())
            if cells.get(part) is not None
        ]
        if part == "global":
            _in_words(axes, found)
        elif found:
            _bars(axes, part, found, everything)
    axes.plot([], [], "D", color="black", markersize=4, label="the paper")
    shown = [cell.accuracy or 0.0 for cells in rows.values() for part, cell in cells.items() if part != "global"]
    axes.set_ylim(max(0.0, min(shown, default=0.0) - 4), min(100.0, max(shown, default=100.0) + 1.5))
    axes.set_xticks(range(len(rows)), [label.replace("-", "\n") for label in rows], fontsize=7.5)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("average test accuracy (%)")
    axes.set_title(f"Local and global modulation, Rotation-MNIST{protocol(everything)}")
    axes.text(0.005, 0.985, "the axis does not start at 0", transform=axes.transAxes, fontsize=7, va="top", color=GREY)
    legend_beside(axes)
    return True


def _bars(axes: Axes, part: str, found: Sequence[tuple[float, Filled]], everything: Sequence[Filled]) -> None:
    colour, hatch, name = PARTS[part]
    axes.bar(
        [x for x, _ in found],
        [cell.accuracy or 0.0 for _, cell in found],
        0.25,
        yerr=[cell.deviation or 0.0 for _, cell in found],
        color=colour,
        hatch=hatch,
        edgecolor="white",
        label=name,
        zorder=2,
    )
    for x, cell in found:
        if cell.unusual and not protocol(everything):
            axes.text(x, cell.accuracy or 0.0, f" {cell.unusual}", rotation=90, ha="center", va="bottom", fontsize=6.5)
    theirs = [(x, cell.cell.published) for x, cell in found]
    known = [(x, paper.accuracy) for x, paper in theirs if paper is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], "D", color="black", markersize=4, zorder=3)


def _in_words(axes: Axes, found: Sequence[tuple[float, Filled]]) -> None:
    """Write accuracies far below the axis at its foot."""
    for x, cell in found:
        axes.text(
            x,
            0.02,
            f"global only: {cell.accuracy or 0.0:.1f} ↓",
            rotation=90,
            ha="center",
            fontsize=7,
            color=PARTS["global"][0],
            transform=axes.get_xaxis_transform(),
        )


def _row(filled: Sequence[Filled], label: str) -> dict[str, Filled]:
    return {cell.cell.column.key: cell for cell in filled if cell.cell.row.label == label and cell.results}
