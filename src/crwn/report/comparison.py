"""The table of `crwn compare`: one row for each method."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from crwn.experiments.compare import Compared
from crwn.experiments.metrics import average
from crwn.report.tables import NOTHING, Table, number


def comparison_table(compared: Sequence[Compared]) -> Table:
    """Mean accuracy with its deviation, the difference from the first method and its p-value, and what a task costs."""
    first = compared[0].config.method_name
    head = [
        "method",
        "accuracy %",
        f"against {first}",
        "p (paired t)",
        "forgetting",
        "parameters per task",
        "s per task",
    ]
    rows = []
    for one in compared:
        spread = "" if one.accuracy_std is None else f" ± {one.accuracy_std:.2f}"
        rows.append(
            [
                one.label,
                f"{one.accuracy:.2f}{spread}",
                NOTHING if one.difference is None else f"{one.difference:+.2f}",
                NOTHING if one.p_value is None else f"{one.p_value:.2g}",
                NOTHING if one.forgetting is None else f"{one.forgetting:.2f}",
                number(one.results[0].params_per_task_amortised),
                f"{average([result.seconds_per_task for result in one.results]):.2f}",
            ]
        )
    return Table(head, rows)


def comparison_facts(compared: Sequence[Compared]) -> list[dict[str, object]]:
    """The comparison as data for JSON, with the seeds and folders of every method."""
    return [
        {
            "method": one.config.method,
            "size": one.config.size,
            "settings": dict(one.config.settings),
            "seeds": [result.seed for result in one.results],
            "tasks": len(one.results[0].tasks),
            "average_accuracy": one.accuracy,
            "accuracy_std": one.accuracy_std,
            "accuracies": one.accuracies,
            "difference": one.difference,
            "p_value": one.p_value,
            "forgetting": one.forgetting,
            "params_per_task": one.results[0].params_per_task,
            "params_per_task_amortised": one.results[0].params_per_task_amortised,
            "seconds_per_task": average([result.seconds_per_task for result in one.results]),
            "run_dirs": [str(folder) for folder in one.folders],
        }
        for one in compared
    ]


def comparison_csv(compared: Sequence[Compared]) -> str:
    """The same as CSV, one line for each method."""
    out = io.StringIO()
    lines = comparison_facts(compared)
    for line in lines:
        line["settings"] = " ".join(f"{key}={value}" for key, value in dict(line["settings"]).items())  # type: ignore[call-overload]
        for name in ("seeds", "accuracies", "run_dirs"):
            line[name] = " ".join(str(value) for value in line[name])  # type: ignore[attr-defined]
    writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()
