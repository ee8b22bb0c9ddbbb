"""The result of a run, and the summary of several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from crwn.experiments.metrics import average, deviation


class RunResult(BaseModel):
    """A finished run; accuracies are percentages.

    Args:
        tasks: names in the order they were learned.
        accuracy_after: of each task right after it was learned.
        accuracy: of each task after the last one: a second, real evaluation.
        forgetting: None where tasks are learned jointly.
        matrix: row k holds the accuracies of tasks 0..k after learning task k, when measured.
        class_incremental: task and class accuracy with the task inferred from groups of rows, when measured.
        protocol: how the run was evaluated: "task", "class" or "domain".
        without_task: accuracy under the other two (`crwn.experiments.protocols`).
        seconds_per_task: set-up, training and evaluation, means over tasks.
        peak_memory_bytes: the most the process held.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scenario: str
    method: str
    size: str
    seed: int
    settings: dict[str, str]
    budget: dict[str, int]
    tasks: list[str]
    accuracy_after: list[float]
    accuracy: list[float]
    average_accuracy: float
    forgetting: float | None
    backward_transfer: float | None
    forward_transfer: float | None = None
    matrix: list[list[float]] | None = None
    class_incremental: dict[str, float] | None = None
    protocol: str = "task"
    without_task: dict[str, float] | None = None
    params_per_task: int
    params_per_task_amortised: float
    bytes_per_task: int
    count_note: str = ""
    setup_seconds: float
    training_seconds: float
    evaluation_seconds: float
    seconds_per_task: float
    peak_memory_bytes: int
    finished: str

    @property
    def closed_form(self) -> bool:
        """Whether tasks were learned in one pass over their rows, for which the budget says nothing."""
        return "learned in closed form" in self.count_note

    @property
    def length(self) -> str:
        """How long a task was learned: "250 epochs", "1,000 batches" or "closed form"."""
        if self.closed_form:
            return "closed form"
        return ", ".join(f"{count:,} {unit}" for unit, count in self.budget.items())

    def deterministic(self) -> dict[str, Any]:
        """The fields that a repetition of the run must reproduce: everything but times and memory."""
        times = {name for name in type(self).model_fields if "seconds" in name}
        return self.model_dump(exclude=times | {"finished", "peak_memory_bytes"})


def summary(results: Sequence[RunResult], folders: Sequence[Path]) -> dict[str, Any]:
    """Several seeds of one run as one object: what `crwn run --json` prints."""
    first = results[0]
    forgot = [result.forgetting for result in results if result.forgetting is not None]
    accuracies = [result.average_accuracy for result in results]
    whole: dict[str, Any] = {
        "scenario": first.scenario,
        "method": first.method,
        "size": first.size,
        "seeds": [result.seed for result in results],
        "tasks": len(first.tasks),
        "average_accuracy": average(accuracies),
        "accuracy_std": deviation(accuracies) if len(accuracies) > 1 else None,
        "forgetting": average(forgot) if forgot else None,
        "params_per_task": first.params_per_task,
        "params_per_task_amortised": first.params_per_task_amortised,
        "bytes_per_task": first.bytes_per_task,
        "seconds_per_task": average([result.seconds_per_task for result in results]),
        "run_dirs": [str(folder) for folder in folders],
    }
    for name in ("backward_transfer", "forward_transfer"):
        if first.matrix is not None:
            values = [value for result in results if (value := getattr(result, name)) is not None]
            whole[name] = average(values) if values else None
    if first.class_incremental is not None:
        scores = [result.class_incremental or {} for result in results]
        whole["class_incremental"] = {key: average([score[key] for score in scores]) for key in scores[0]}
    if first.without_task is not None:
        parts = [result.without_task or {} for result in results]
        mean = {key: average([part[key] for part in parts]) for key in parts[0]}
        whole["without_task"] = {"protocol": first.protocol, **mean}
    return whole
