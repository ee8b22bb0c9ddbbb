"""Pretrained mode against random weights: on which tasks it is ahead, and by how much on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crwn.experiments.metrics import average
from crwn.experiments.suite import Filled
from crwn.report.records import means_per_task
from crwn.report.style import COLOURS, TITLES, protocol, task_axis

# The paper: ahead "on the first two tasks".
FIRST = 2


@dataclass(frozen=True)
class Pair:
    """The same network with and without pretrained mode, on the tasks that both have learned."""

    pretrained: Filled
    random: Filled

    @property
    def name(self) -> str:
        return f"FC{self.pretrained.cell.row.size}"

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
    behind = [a.accuracy - b.accuracy for a, b in published if a is not None and b is not None]
    if behind:
        paper += f" ({behind[0]:+.2f})"
    return f"{paper}. Here: {'; '.join(parts)}."


def pretrained(figure: Any, filled: Sequence[Filled]) -> bool:
    """Draw accuracy per task with weights trained by the first task, and with random ones."""
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
            label = f"{name}: mean {average(means):.2f}%"
            axes.plot(
                range(1, len(means) + 1), means, color=colour, marker=marker, linestyle=dash, markersize=4, label=label
            )
        scenario = pair.pretrained.cell.column.scenario
        axes.set_title(f"NeuroModNet-{pair.name}, {TITLES.get(scenario, scenario)}{protocol([pair.pretrained])}")
        axes.legend(fontsize=8, loc="best")
        task_axis(axes, len(with_it))
    panels[0].set_ylabel("test accuracy after the last task (%)")
    return True
