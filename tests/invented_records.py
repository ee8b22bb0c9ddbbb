"""Invented records of runs for tests of reports."""

from __future__ import annotations

from pathlib import Path

from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS, RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.result import RunResult
from crwn.experiments.suite import SUITES, load_suite


def write_record(
    base: Path,
    config: RunConfig,
    accuracy: float,
    *,
    params: int = 1000,
    forgetting: float | None = 0.0,
    count_note: str = "",
) -> Path:
    """A finished run whose tasks all have this accuracy."""
    count = config.tasks or USUAL_TASKS[config.scenario]
    files = RunFolder(config.folder(base))
    given = {"epochs": config.epochs, "batches": config.batches}
    budget = {name: value for name, value in given.items() if value is not None}
    machine = {"processor": "Some CPU", "cores": 2, "threads": 2}
    files.begin(
        {
            "run": config.identity(),
            "chosen": {"threads": 2, "stack_size": 1},
            "machine": machine,
            "versions": {"torch": "2.13.0"},
        }
    )
    measured = {"accuracy": accuracy, "training_seconds": 2.0, "evaluation_seconds": 0.25, "setup_seconds": 0}
    files.keep([{"task": i, **measured, "peak_memory_bytes": 10**8} for i in range(count)])
    files.finish(
        RunResult(
            scenario=config.scenario,
            method=config.method,
            size=config.size or "",
            seed=config.seed,
            settings=config.settings,
            budget=budget or USUAL_BUDGET[config.scenario],
            tasks=[f"task-{i}" for i in range(count)],
            accuracy_after=[accuracy] * count,
            accuracy=[accuracy] * count,
            average_accuracy=accuracy,
            forgetting=forgetting,
            backward_transfer=None if forgetting is None else 0.0 - forgetting,
            matrix=[[accuracy] * (i + 1) for i in range(count)] if config.matrix else None,
            params_per_task=params,
            params_per_task_amortised=float(params),
            bytes_per_task=4 * params,
            count_note=count_note,
            setup_seconds=0.0,
            training_seconds=2.0,
            evaluation_seconds=0.25,
            seconds_per_task=2.25,
            peak_memory_bytes=10**8,
            finished="2026-01-01T00:00:00+00:00",
        )
    )
    return files.path


def write_suites(base: Path) -> None:
    """Three tasks of every cell of every suite, with the paper's accuracy, and one run with a matrix."""
    for name in SUITES:
        for cell in load_suite(name).cells():
            paper = cell.published
            write_record(base, cell.config(tasks=3), paper.accuracy if paper else 70.0, params=5000)
    matrix = RunConfig(scenario="rotated-mnist", method="finetune", size="256", tasks=3, matrix=True)
    write_record(base, matrix, 80.0, forgetting=3.0)
