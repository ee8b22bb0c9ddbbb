"""Methods compared on equal tasks and an equal schedule, where that is shorter than the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from crwn.report.records import Group, read_groups
from crwn.report.tables import NOTHING, aligned


def equal_schedules(records: Path, scenario: str, *, heading: str = "###") -> str:
    """Return a table for every shortened schedule that two or more methods were run with, the longest first."""
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in read_groups(records):
        if group.scenario == scenario and group.short:
            # Seeds deal out the classes of a split: other seeds are other tasks.
            seeds = tuple(result.seed for result in group.results)
            key = (tuple(group.first.tasks), group.first.length, seeds)
            alike.setdefault(key, []).append(group)
    compared = [groups for groups in alike.values() if len({group.method for group in groups}) > 1]
    parts = []
    for groups in sorted(compared, key=_length, reverse=True):
        groups.sort(key=lambda group: -group.accuracy)
        parts += [f"{heading} {scenario}: {groups[0].short}, equal for all", _table(groups), _order(groups)]
    return "\n\n".join(parts)


def _length(groups: Sequence[Group]) -> tuple[str, int, int]:
    first = groups[0].first
    (unit, budget), *_ = first.budget.items()
    return unit, len(first.tasks) * budget, len(first.tasks)


def _table(groups: Sequence[Group]) -> str:
    rows = [
        [
            group.label,
            f"{group.accuracy:.2f}" + (f" ± {group.spread:.2f}" if group.spread is not None else ""),
            NOTHING if group.forgetting is None else f"{group.forgetting:.2f}",
            f"{len(group.runs)}",
            NOTHING if group.paper is None else f"{group.paper.accuracy:.2f} ± {group.paper.deviation:.2f}",
        ]
        for group in groups
    ]
    return aligned(["method", "accuracy %", "forgetting", "seeds", "paper, full length"], rows)


def _order(groups: Sequence[Group]) -> str:
    """Return whether the methods are in the paper's order, as a sentence."""
    printed = [group for group in groups if group.paper is not None]
    swapped = [
        f"{better.label} above {worse.label}{_by(better, worse)}"
        for better, worse in combinations(printed, 2)
        if better.paper and worse.paper and better.paper.accuracy < worse.paper.accuracy
    ]
    if len(printed) < 2:
        return ""
    if not swapped:
        return "Rows with a number of the paper are in its order."
    return f"Not in the paper's order: {', '.join(swapped)}."


def _by(better: Group, worse: Group) -> str:
    """Return how far apart they are on the same tasks, with the standard error, in brackets."""
    gaps = [
        one - other
        for better_result, worse_result in zip(better.results, worse.results, strict=True)
        for one, other in zip(better_result.accuracy, worse_result.accuracy, strict=True)
    ]
    if len(gaps) < 2:
        return ""
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f" (by {statistics.fmean(gaps):.2f} on average over {len(gaps)} tasks, standard error {error:.2f})"
