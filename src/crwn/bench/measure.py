"""Measuring in turns: every figure is the ratio of two times taken alternately in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# A side of a comparison: works once and returns the seconds that count, or None for all it took.
Side = Callable[[], float | None]
# Takes a line of progress, or a note for the record.
Message = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One number of a record: the median over rounds, the smallest and largest round, and what it is.

    Args:
        name: `training.fc256_vs_paper_style`: the benchmark, a dot, the figure.
        value: the median.
        spread: smallest and largest over the rounds.
        what: the figure in words.
        facts: what it was made from: seconds of both sides, sizes.
    """

    name: str
    value: float
    spread: tuple[float, float]
    what: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "spread": list(self.spread), "what": self.what, **self.facts}


def alternately(sides: Mapping[str, Side], rounds: int, *, warm_up: int = 1) -> dict[str, list[float]]:
    """Measure every side once in each round, one after the other, and return the seconds.

    >>> times = alternately({"a": lambda: 2.0, "b": lambda: 1.0}, 3)
    >>> times["a"], times["b"]
    ([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(-warm_up, rounds):
        for name, side in sides.items():
            began = time.perf_counter()
            own = side()
            seconds = time.perf_counter() - began if own is None else own
            if turn >= 0:
                taken[name].append(seconds)
    return taken


def ratio(
    name: str, what: str, *, slower: Sequence[float], faster: Sequence[float], facts: Mapping[str, Any] | None = None
) -> Figure:
    """Return how many times longer the first takes than the second, round by round: a slow round slows both.

    >>> figure = ratio("training.x", "x", slower=[4.0, 6.0, 9.0], faster=[2.0, 2.0, 2.0])
    >>> figure.value, figure.spread
    (3.0, (2.0, 4.5))
    """
    each = [a / b for a, b in zip(slower, faster, strict=True)]
    taken = {"seconds_theirs": statistics.median(slower), "seconds_ours": statistics.median(faster)}
    return Figure(name, statistics.median(each), (min(each), max(each)), what, {**taken, **(facts or {})})


def exponent(
    name: str, what: str, sizes: Sequence[float], rounds: Sequence[Sequence[float]], *, facts: Mapping[str, Any]
) -> Figure:
    """Return the slope of log(time) over log(size), fitted round by round: 1 is growth in proportion, 0 is none.

    >>> figure = exponent("scaling.x", "x", [1, 2, 4], [[1.0, 4.0, 16.0]], facts={})
    >>> round(figure.value, 6)
    2.0
    """
    slopes = [_slope([math.log(size) for size in sizes], [math.log(t) for t in one]) for one in rounds]
    points = {
        "sizes": list(sizes),
        "times_the_first": [statistics.median([one[i] / one[0] for one in rounds]) for i in range(len(sizes))],
        "seconds": [statistics.median([one[i] for one in rounds]) for i in range(len(sizes))],
    }
    return Figure(name, statistics.median(slopes), (min(slopes), max(slopes)), what, {**points, **facts})


def middle(values: Sequence[float]) -> float:
    """Return the median, the upper one of two.

    >>> middle([3.0, 1.0, 2.0]), middle([1.0, 2.0])
    (2.0, 2.0)
    """
    return sorted(values)[len(values) // 2]


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return statistics.linear_regression(x, y).slope
