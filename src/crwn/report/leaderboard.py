"""The leaderboard of `crwn learn-all`: losses and wins of every table, as a table and as a picture."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crwn.experiments.leaderboard import OURS, Line
from crwn.report.style import saved
from crwn.report.tables import Table, number

COLOURS = {"better": "#0072B2", "worse": "#D55E00"}


def leaderboard_table(lines: Sequence[Line]) -> Table:
    """One row for each table, those first where the best other classifier is furthest ahead."""
    learned = [line for line in lines if line.error is None]
    names = _names(learned)
    head = ["task", "rows", "columns", "classes", "majority %", *(f"{name} %" for name in names)]
    compared = len(names) > 1
    head += ["difference"] if compared else []
    rows = [
        [
            line.task,
            number(line.rows),
            number(line.columns),
            str(line.classes),
            f"{line.majority:.2f}",
            *(f"{line.accuracy[name]:.2f}" for name in names),
            *([f"{difference(line):+.2f}"] if compared else []),
        ]
        for line in sorted(learned, key=difference)
    ]
    return Table(head, rows)


def difference(line: Line) -> float:
    """Our accuracy minus that of the best other classifier; minus the majority's share where there is no other."""
    others = [value for name, value in line.accuracy.items() if name != OURS]
    return round(line.accuracy[OURS] - max(others, default=line.majority), 2)


def leaderboard_summary(lines: Sequence[Line]) -> dict[str, Any]:
    """Counts of tables where we are better, equal and worse, median ranks, and tables below the majority."""
    learned = [line for line in lines if line.error is None]
    names = _names(learned)
    against = {
        name: {
            "better": sum(line.accuracy[OURS] > line.accuracy[name] for line in learned),
            "equal": sum(line.accuracy[OURS] == line.accuracy[name] for line in learned),
            "worse": sum(line.accuracy[OURS] < line.accuracy[name] for line in learned),
        }
        for name in names
        if name != OURS
    }
    return {
        "tables": len(learned),
        "not_learned": len(lines) - len(learned),
        "mean_accuracy": {name: _mean([line.accuracy[name] for line in learned]) for name in names},
        "median_rank": {name: statistics.median(_rank(line, name) for line in learned) for name in names},
        "against": against,
        "below_majority": [line.task for line in learned if line.accuracy[OURS] < line.majority],
    }


def leaderboard_text(lines: Sequence[Line]) -> list[str]:
    """The summary as sentences."""
    found = leaderboard_summary(lines)
    text = [
        f"against {name}: better on {counts['better']}, equal on {counts['equal']}, worse on {counts['worse']} of "
        f"{found['tables']} tables"
        for name, counts in found["against"].items()
    ]
    for what, unit in (("mean_accuracy", "%"), ("median_rank", "")):
        shown = ", ".join(f"{name} {value:.2f}{unit}" for name, value in found[what].items())
        text += [f"{what.replace('_', ' ')}: {shown}"] if found["tables"] else []
    if found["below_majority"]:
        text.append(f"below the majority: {', '.join(found['below_majority'])}")
    return text


def leaderboard_csv(lines: Sequence[Line]) -> str:
    """The same as CSV; tables that were not learned have their error."""
    out = io.StringIO()
    names = _names([line for line in lines if line.error is None])
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["task", "rows", "tested", "columns", "classes", "majority", *names, "seconds", "error"])
    for line in lines:
        accuracies = [line.accuracy.get(name, "") for name in names]
        facts = [line.task, line.rows, line.tested, line.columns, line.classes, line.majority]
        writer.writerow([*facts, *accuracies, line.seconds, line.error or ""])
    return out.getvalue()


def draw_leaderboard(lines: Sequence[Line], path: Path) -> list[Path]:
    """Draw the difference from the best other classifier, a bar for each table."""
    learned = sorted((line for line in lines if line.error is None), key=difference)
    height = 1.6 + 0.22 * max(4, len(learned))
    return saved(path, (8.0, height), partial(_paint, lines=learned))


def _paint(figure: Any, lines: Sequence[Line]) -> bool:
    axes = figure.subplots()
    values = [difference(line) for line in lines]
    colours = [COLOURS["better" if value >= 0 else "worse"] for value in values]
    axes.barh([line.task for line in lines], values, color=colours)
    axes.axvline(0, color="black", linewidth=0.8)
    widest = max((abs(value) for value in values), default=0.0) or 1.0
    axes.set_xlim(min([*values, 0.0]) - 0.12 * widest, max([*values, 0.0]) + 0.12 * widest)
    for place, value in enumerate(values):
        beside = {"ha": "left" if value >= 0 else "right", "va": "center", "fontsize": 7}
        axes.annotate(
            f"{value:+.1f}", (value, place), (3 if value >= 0 else -3, 0), textcoords="offset points", **beside
        )
    axes.margins(y=0.01)
    axes.invert_yaxis()
    best = "the best other classifier" if len(_names(lines)) > 1 else "always the majority class"
    axes.set_xlabel(f"accuracy minus that of {best}, in percentage points")
    less, more = sum(value < 0 for value in values), sum(value > 0 for value in values)
    axes.set_title(f"{len(lines)} tables: {less} worse, {len(lines) - less - more} equal, {more} better")
    return bool(lines)


def _names(lines: Sequence[Line]) -> list[str]:
    """Classifiers that all these lines have, ours first."""
    first: list[str] = list(lines[0].accuracy) if lines else []
    return [name for name in first if all(name in line.accuracy for line in lines)]


def _rank(line: Line, name: str) -> float:
    """1 for the highest accuracy; equal ones share the mean of their ranks."""
    own, values = line.accuracy[name], line.accuracy.values()
    return 1 + sum(other > own for other in values) + (sum(other == own for other in values) - 1) / 2


def _mean(values: Sequence[float]) -> float:
    return round(statistics.mean(values), 2) if values else 0.0
