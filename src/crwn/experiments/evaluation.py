"""The end of a run: every task evaluated once more, and all measures of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crwn.context import now
from crwn.experiments import metrics
from crwn.experiments.bench import Bench, accuracy, accuracy_unlearned, build, inferred_accuracy
from crwn.experiments.config import RunConfig
from crwn.experiments.result import RunResult
from crwn.experiments.surroundings import peak_memory
from crwn.experiments.watcher import Watcher


def final_result(config: RunConfig, bench: Bench, lines: Sequence[dict[str, Any]], watcher: Watcher) -> RunResult:
    """What came of a run whose tasks are all learned; `lines` are those of metrics.jsonl."""
    method, scenario = bench.method, bench.scenario
    count = len(scenario)
    final: list[float] = []
    for i, task in enumerate(scenario):
        watcher.evaluating(i, count)
        final.append(accuracy(method, task, task.test))
    watcher.evaluating(count, count)
    after = [float(line["accuracy"]) for line in lines]
    inferred = None
    if config.class_incremental and not method.answers_by_task:
        watcher.note(f"{method.name} answers every task alike: there is no task to infer, so nothing is measured")
    elif config.class_incremental:
        inferred = inferred_accuracy(
            method, list(scenario), config.class_incremental, tell=lambda i: watcher.evaluating(i, count)
        )
    forward = None
    if config.matrix and not method.independent and not method.joint:
        untrained = build(config).method
        starts = [accuracy_unlearned(untrained, task) for task in scenario]
        forward = metrics.forward_transfer([line.get("accuracy_before") for line in lines], starts)
    counts = method.counts(count)
    setup, training, evaluation = (
        metrics.average([float(line[name]) for line in lines])
        for name in ("setup_seconds", "training_seconds", "evaluation_seconds")
    )
    recipe = bench.recipe
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
