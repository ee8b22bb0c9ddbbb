"""The end of a run: every task evaluated once more, and all measures of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crwn.contexts import now
from crwn.experiments import metrics
from crwn.experiments.config import RunConfig
from crwn.experiments.environment import peak_memory
from crwn.experiments.experiment import Experiment, accuracy, accuracy_unlearned, inferred_accuracy
from crwn.experiments.progress import RunProgress
from crwn.experiments.protocols import evaluate_protocol
from crwn.experiments.result import RunResult
from crwn.methods import make_method


def final_result(
    config: RunConfig, experiment: Experiment, lines: Sequence[dict[str, Any]], progress: RunProgress
) -> RunResult:
    """Evaluate a run whose tasks are all learned; `lines` are those of metrics.jsonl."""
    method, scenario = experiment.method, experiment.scenario
    count = len(scenario)
    final: list[float] = []
    for i, task in enumerate(scenario):
        progress.evaluating(i, count)
        final.append(accuracy(method, task, task.test))
    progress.evaluating(count, count)
    after = [float(line["accuracy"]) for line in lines]
    inferred = None
    if config.class_incremental:
        inferred = inferred_accuracy(
            method, list(scenario), config.class_incremental, show=lambda i: progress.evaluating(i, count)
        )
    without_task = None
    if config.protocol != "task":
        without_task = evaluate_protocol(
            config.protocol, method, list(scenario), show=lambda i: progress.evaluating(i, count)
        )
    forward = None
    if config.matrix and not method.independent and not method.joint:
        untrained, _ = make_method(
            config.method, scenario, size=config.size, seed=config.seed, settings=config.settings
        )
        starts = [accuracy_unlearned(untrained, task) for task in scenario]
        forward = metrics.forward_transfer([line.get("accuracy_before") for line in lines], starts)
    counts = method.counts(count)
    setup, training, evaluation = (
        metrics.average([float(line[name]) for line in lines])
        for name in ("setup_seconds", "training_seconds", "evaluation_seconds")
    )
    recipe = experiment.recipe
    return RunResult(
        scenario=config.scenario_name,
        method=config.method,
        size=method.size,
        seed=config.seed,
        settings=config.settings,
        budget={"epochs": recipe.epochs} if recipe.epochs else {"batches": recipe.batches or 1000},
        tasks=[task.name for task in scenario],
        accuracy_after=after,
        accuracy=final,
        average_accuracy=metrics.average(final),
        forgetting=None if method.joint else metrics.forgetting(after, final),
        backward_transfer=None if method.joint else metrics.backward_transfer(after, final),
        forward_transfer=forward,
        matrix=[line["row"] for line in lines] if config.matrix and not method.joint else None,
        class_incremental=inferred,
        protocol=config.protocol,
        without_task=without_task,
        params_per_task=counts.params_per_task,
        params_per_task_amortised=counts.params_per_task_amortised,
        bytes_per_task=counts.bytes_per_task,
        count_note=counts.note,
        setup_seconds=setup,
        training_seconds=training,
        evaluation_seconds=evaluation,
        seconds_per_task=setup + training + evaluation,
        peak_memory_bytes=max(peak_memory(), *(int(line["peak_memory_bytes"]) for line in lines)),
        finished=now(),
    )
