"""Pretrained mode beside random weights: on which tasks it is ahead, and by how much on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crwn.experiments.metrics import average
from crwn.experiments.suite import Filled

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
        both = means_per_task(self.pretrained), means_per_task(self.random)
        common = min(map(len, both))
        return both[0][:common], both[1][:common]

    @property
    def gains(self) -> list[float]:
        """What pretrained mode adds to each task."""
        return [a - b for a, b in zip(*self.per_task, strict=True)]


def pairs(filled: Sequence[Filled]) -> list[Pair]:
    """All sizes that were run both ways."""
    run = [cell for cell in filled if cell.results]
    return [
        Pair(cell, other)
        for cell in run
        for other in run
        if cell.cell.row.settings.get("pretrained") == "true"
        and not other.cell.row.settings
        and (other.cell.column, other.cell.row.size) == (cell.cell.column, cell.cell.row.size)
    ]


def means_per_task(cell: Filled) -> list[float]:
    """Mean over seeds of each task's accuracy at the end."""
    columns = zip(*(result.accuracy for result in cell.results), strict=True)
    return [average(values) for values in columns]


def comparison(filled: Sequence[Filled]) -> str:
    """What the paper says of pretrained mode, and what the records say."""
    found = pairs(filled)
    if not found:
        return ""
    said = []
    for pair in found:
        gains = pair.gains
        later = gains[FIRST:]
        text = f"{pair.name}, {len(gains)} tasks: {average(gains[:FIRST]):+.2f} points on the first two tasks"
        if later:
            ahead = sum(gain > 0 for gain in later)
            text += f", {average(later):+.2f} on the others (ahead on {ahead} of {len(later)})"
        said.append(f"{text}, {average(gains):+.2f} on average")
    paper = (
        "Pretrained mode against none, which the paper finds ahead on the first two tasks only and behind on average"
    )
    published = [(pair.pretrained.cell.published, pair.random.cell.published) for pair in found]
    behind = [a.accuracy - b.accuracy for a, b in published if a is not None and b is not None]
    if behind:
        paper += f" ({behind[0]:+.2f})"
    return f"{paper}. Here: {'; '.join(said)}."
