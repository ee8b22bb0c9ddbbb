"""Fill the tables of docs/exact.md, and draw its picture, from records under results/.

    python scripts/exact_page.py

The records are made by `crwn run`, `crwn bench exact`, `benchmarks/exact_parts.py`, `benchmarks/exact_curves.py` and
`benchmarks/streams.py`; each has its command.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from fill_page import fill

from crwn.report.style import COLOURS, GREY, saved
from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "exact.md"
PICTURE = ROOT / "docs" / "images" / "exact"
SIZE = 10.5, 4.2
RUNS, BENCH = ROOT / "results", ROOT / "results" / "bench"
DATA = {
    "rotated-mnist/flynet-10d": "Rotated-MNIST, FlyNet 10d, all 36 tasks",
    "split-cifar100/flynet-5k": "Split-CIFAR100, FlyNet 5k, all 20 tasks",
}
PARTS = {
    "batches": "1,000 batches of 128 rows",
    "features": "features of all 60,000 rows",
    "statistics": "statistics: features, rounding, products, sums",
    "products": "of these the products of all pairs of features",
    "factor": "one Cholesky factor",
    "solution of one ridge": "solution and cross-validation for one ridge",
    "one pass": "one pass over the rows, without products",
}
SIDES = {"batches": "batches", "exact": "closed form", "newton": "with 4 Newton steps"}
LOOKS = {"10d": "blue", "20d": "vermillion", "30d": "green", "40d": "purple", "5k": "blue"}
IMAGES = "5k"
PAPER = 1000  # batches


def read(path: Path) -> dict[str, Any]:
    """The record in this file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _accuracy(run: str) -> str:
    path = RUNS / run / "seed-0" / "result.json"
    return f"{read(path)['average_accuracy']:.2f}%" if path.exists() else ""


def accuracies() -> str:
    """Average accuracy of whole runs, seed 0."""
    rows = [
        [what, *(_accuracy(f"{run}{way}") for way in ("", "-training=exact", "-training=newton"))]
        for run, what in DATA.items()
    ]
    return aligned(["data", *SIDES.values()], rows)


def one_task(record: dict[str, Any]) -> str:
    """Accuracy and seconds of one task, from `crwn bench exact`."""
    facts = record["details"]["exact.vs_sgd"]
    seconds, right = facts["process_seconds"], facts["accuracy"]
    rows = [
        ["accuracy", *(f"{right[side]:.2f}%" for side in SIDES)],
        ["seconds of the process", *(f"{seconds[side]:.1f}" for side in SIDES)],
        ["seconds of batches / these", *(f"{seconds['batches'] / seconds[side]:.2f}" for side in SIDES)],
    ]
    return aligned([f"one task, {facts['task']}", *SIDES.values()], rows)


def parts(record: dict[str, Any]) -> str:
    """Seconds of the parts of a closed form."""
    seconds, ratios = record["seconds"], record["batches_over"]
    rows = [
        [what, f"{seconds[name]:.2f}", f"{ratios[name]:.2f}" if name in ratios else ""] for name, what in PARTS.items()
    ]
    return aligned(["part", "seconds", "seconds of batches / these"], rows)


def streams(record: dict[str, Any]) -> str:
    """Milliseconds of one observed row, and the memory of many."""
    rows = [
        [what, *(f"{record[name][f'p{share}_ms']:.1f}" for share in (50, 90, 99)), f"{record[name]['largest_ms']:.1f}"]
        for name, what in (("python_10d", "in Python"), ("http_10d", "over HTTP"))
    ]
    table = aligned(["milliseconds of one row at 10d", "p50", "p90", "p99", "largest"], rows)
    long = record["million"]
    memory = " and ".join(f"{size:,.0f} MB after {after}" for after, size in long["peak_megabytes"].items())
    return (
        f"{table}\n\n{long['rows']:,} rows through {long['features']} features, 1,000 at a time: {long['seconds']:.0f} "
        f"seconds, and a peak of memory of {memory}."
    )


def tables() -> dict[str, str]:
    """The generated parts of the page, by the name of their place."""
    return {
        "accuracies": accuracies(),
        "one task": one_task(read(BENCH / "exact.json")),
        "parts": parts(read(BENCH / "exact_parts.json")),
        "streams": streams(read(BENCH / "streams.json")),
    }


def paint(figure: Any, record: dict[str, Any]) -> bool:
    """Draw accuracy against seconds: sizes of MNIST on the left, images on the right."""
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    found: dict[str, dict[str, Any]] = dict(sorted(record["parts"].items()))
    for size, part in found.items():
        _curves(right if size == IMAGES else left, size, part)
    left.set(ylim=(89.5, 97), title="FlyNet on one rotation of MNIST")
    images = found[IMAGES]
    right.set(ylim=(70, 87), title=f"FlyNet {IMAGES} on {len(images['tasks'])} tasks of Split-CIFAR100")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set(xlabel="seconds of the process, one thread", ylabel="test accuracy (%)")
        axes.xaxis.set_major_formatter("{x:g}")
    left.set_xlim(left=0.15)
    right.set_xlim(left=0.05)
    _legends(left, right, {size: part for size, part in found.items() if size != IMAGES})
    return True


def _curves(axes: Any, size: str, part: dict[str, Any]) -> None:
    colour = COLOURS[LOOKS[size]]
    points = part["batches"]
    axes.plot(_seconds(points), _right(points), color=colour, marker="o", markersize=3.5, linewidth=1.3)
    budget = [one for one in points if one["batches"] == PAPER] if size != IMAGES else points[-1:]
    axes.plot(_seconds(budget), _right(budget), "o", color=colour, markersize=7.5)
    if "exact" in part:
        axes.plot(
            _seconds(part["newton"]),
            _right(part["newton"]),
            color=colour,
            linestyle=":",
            marker="^",
            markersize=4.5,
            linewidth=1.3,
        )
        axes.plot(
            _seconds(part["exact"]), _right(part["exact"]), "D", color=colour, markersize=8, markeredgecolor="black"
        )


def _legends(left: Any, right: Any, sizes: dict[str, dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    colours = [
        Line2D(
            [], [], color=COLOURS[LOOKS[size]], linewidth=3, label=size if "exact" in part else f"{size}, batches only"
        )
        for size, part in sizes.items()
    ]
    left.legend(handles=colours, fontsize=8, loc="lower right", title="features", title_fontsize=8)
    ways = [
        Line2D([], [], marker="o", markersize=3.5, label="batches, more and more", color=GREY),
        Line2D([], [], marker="o", markersize=7.5, linestyle="", label="the recipe's budget", color=GREY),
        Line2D(
            [], [], marker="D", markersize=8, linestyle="", markeredgecolor="black", label="closed form", color=GREY
        ),
        Line2D([], [], marker="^", markersize=4.5, linestyle=":", label="1, 2, 4, 8 Newton steps", color=GREY),
    ]
    right.legend(handles=ways, fontsize=8, loc="lower right")


def _seconds(points: list[dict[str, float]]) -> list[float]:
    return [one["seconds"] for one in points]


def _right(points: list[dict[str, float]]) -> list[float]:
    return [one["accuracy"] for one in points]


def main() -> None:
    PAGE.write_text(fill(PAGE.read_text(), tables()))
    saved(PICTURE, SIZE, partial(paint, record=read(BENCH / "exact_curves.json")))


if __name__ == "__main__":
    main()
