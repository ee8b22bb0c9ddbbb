"""Pretrained mode against random weights: on which tasks it is ahead, and by how much on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crwn.experiments.metrics import average
from crwn.experiments.suite import Filled
from crwn.report.records import means_per_task
from crwn.report.style import COLOURS, TITLES, task_axis

# The paper: ahead "on the first two tasks".
FIRST = 2


@dataclass(frozen=True)
class Pair:
    """The same network with and without pretrained mode, on the tasks that both have learned."""

    pretrained: Filled
    random: Filled

    @property
    def name(self) -> str:
        row = self.pretrained.cell.row
        rate = row.settings.get("first_rate")
        return f"FC{row.size}" + (f", first task at {rate}" if rate else "")

    @property
    def per_task(self) -> tuple[list[float], list[float]]:
        """Accuracy of each common task, means over seeds: with pretrained mode, and without."""
        both = means_per_task(self.pretrained.results), means_per_task(self.random.results)
        common = min(map(len, both))
        return both[0][:common], both[1][:common]

    @property
    def gains(self) -> list[float]:
        """Points of accuracy that pretrained mode adds to each task."""
        return [a - b for a, b in zip(*self.per_task, strict=True)]


def pairs(filled: Sequence[Filled]) -> list[Pair]:
    """Return the sizes that were run both ways."""
    run = [cell for cell in filled if cell.results]
    return [
        Pair(cell, other)
        for cell in run
        for other in run
        if cell.cell.row.settings.get("pretrained") == "true"
        and not other.cell.row.settings
        and (other.cell.column, other.cell.row.size) == (cell.cell.column, cell.cell.row.size)
    ]


def comparison(filled: Sequence[Filled]) -> str:
    """Return the paper's finding about pretrained mode and that of the records, as a sentence; empty without runs."""
    found = pairs(filled)
    if not found:
        return ""
    parts = []
    for pair in found:
        gains = pair.gains
        later = gains[FIRST:]
        text = f"{pair.name}, {len(gains)} tasks: {average(gains[:FIRST]):+.2f} points on the first two tasks"
        if later:
            ahead = sum(gain > 0 for gain in later)
            text += f", {average(later):+.2f} on the others (ahead on {ahead} of {len(later)})"
        parts.append(f"{text}, {average(gains):+.2f} on average")
    paper = (
        "Pretrained mode against none, which the paper finds ahead on the first two tasks only and behind on average"
    )
    published = [(pair.pretrained.cell.published, pair.random.cell.published) for pair in found]
    behind = sorted({a.accuracy - b.accuracy for a, b in published if a is not None and b is not None})
    if behind:
        paper += f" ({behind[0]:+.2f})"
    return f"{paper}. Here: {'; '.join(parts)}."


def pretrained(figure: Any, filled: Sequence[Filled]) -> bool:
    """Draw accuracy per task with weights trained by the first task, at each of its rates, and with random ones."""
    found = pairs(filled)
    if not found:
        return False
    sizes = list(dict.fromkeys(pair.pretrained.cell.row.size for pair in found))
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, size in zip(panels, sizes, strict=True):
        here = [pair for pair in found if pair.pretrained.cell.row.size == size]
        random = means_per_task(here[0].random.results)
        _line(axes, random, "random weights", COLOURS["blue"], "o", "-")
        for pair in here:
            rate = pair.pretrained.cell.row.settings.get("first_rate")
            look = (COLOURS["vermillion"], "s", "--") if rate is None else (COLOURS["orange"], "^", ":")
            _line(axes, means_per_task(pair.pretrained.results), f"first task at {rate or 0.01}", *look)
        scenario = here[0].pretrained.cell.column.scenario
        axes.set_title(f"FC{size}, {TITLES.get(scenario, scenario)}", fontsize=9)
        axes.legend(fontsize=7, loc="best", title="mean %, tasks", title_fontsize=7)
        task_axis(axes, len(random))
    panels[0].set_ylabel("test accuracy after the last task (%)")
    return True


def _line(axes: Any, means: list[float], name: str, colour: str, marker: str, dash: str) -> None:
    label = f"{name}: {average(means):.2f}, {len(means)}"
    places = range(1, len(means) + 1)
    axes.plot(places, means, color=colour, marker=marker, linestyle=dash, markersize=3, linewidth=1.2, label=label)
