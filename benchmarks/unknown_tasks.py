"""The task of single rows and of groups, "none of these", and how calibrated the probabilities are.

    python benchmarks/unknown_tasks.py rotated-mnist --tasks 36 --json results/bench/unknown_rotated.json
    python benchmarks/unknown_tasks.py rotated-mnist --tasks 36 --every 2 --json results/bench/unknown_rotated_half.json

With `--every 2` only every second task is learned: the others lie between two learned ones, and "none of these" is
counted for groups of their test rows. All settings of the inference were chosen on held-out training rows of the
first scenario; the groups here are of test rows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from write_record import write_record

from crwn import Learner, NeuroModNet, make_scenario
from crwn.layers.weights import named_generator
from crwn.scenarios import Scenario, Task

GROUP = 16


def single_rows(learner: Learner, tasks: list[Task], rows: int) -> dict[str, float]:
    """Percent of test rows whose task is right, and the expected calibration error of its probability."""
    right: list[bool] = []
    share: list[float] = []
    strange = 0
    began = time.perf_counter()
    for task in tasks:
        at = named_generator("single", task.name).choice(len(task.test), rows, replace=False)
        found = learner.infer_rows(task.test.select(torch.from_numpy(at)))
        right += [one.task == task.name for one in found]
        share += [one.probability or 0.0 for one in found]
        strange += sum(one.strange for one in found)
    seconds = time.perf_counter() - began
    hit, sure = np.array(right), np.array(share)
    bins = np.minimum((10 * sure).astype(int), 9)
    error = sum(abs(hit[bins == b].mean() - sure[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    return {
        "rows": len(hit),
        "right_percent": round(100 * float(hit.mean()), 2),
        "mean_probability": round(float(sure.mean()), 4),
        "calibration_error": round(float(error), 4),
        "none_of_these_percent": round(100 * strange / len(hit), 2),
        "milliseconds_per_row": round(1000 * seconds / len(hit), 3),
    }


def groups(learner: Learner, tasks: list[Task], trials: int, *, one_class: bool = False) -> dict[str, float]:
    """Percent of groups whose task is right, and of those that no task fits."""
    right = none = 0
    random = named_generator("unknown groups", one_class)
    for _ in range(trials):
        task = tasks[int(random.integers(len(tasks)))]
        labels = task.test.labels(slice(None)).numpy()
        pool = np.arange(len(labels))
        if one_class:
            pool = pool[labels == labels[int(random.integers(len(labels)))]]
        found = learner.infer_task(task.test.select(torch.from_numpy(random.choice(pool, GROUP, replace=False))))
        right += found[0].task == task.name
        none += bool(found.none_of_these)
    return {"right_percent": round(100 * right / trials, 2), "none_of_these_percent": round(100 * none / trials, 2)}


def learned(given: argparse.Namespace, scenario: Scenario, tasks: list[Task]) -> Learner:
    model = NeuroModNet(784, (given.size, given.size), 10, seed=0, weights="hadamard")
    learner = Learner(model, bank=given.model, resident=max(1024, len(scenario)))
    missing = {task.name: task.train for task in tasks if task.name not in learner.bank}
    if missing:
        learner.learn_many(missing, batches=given.batches, progress=False)
    return learner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=["permuted-mnist", "rotated-mnist"])
    for name, value, meaning in (
        ("tasks", 10, "tasks of the scenario"),
        ("every", 1, "learn every so many of them"),
        ("size", 256, "units of both hidden layers"),
        ("batches", 300, "training steps of a task"),
        ("rows", 50, "single test rows of every task"),
        ("trials", 200, "groups of test rows"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=meaning)
    parser.add_argument("--model", type=Path, help="a model folder to keep the tasks in, or to take them from")
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)

    scenario = make_scenario(given.scenario, seed=0, tasks=given.tasks)
    known = [scenario[at] for at in range(0, len(scenario), given.every)]
    strangers = [task for task in scenario if task.name not in {one.name for one in known}]
    learner = learned(given, scenario, known)
    sizes = [len(json.dumps(learner.context(task.name).info.density)) for task in known]
    record: dict[str, Any] = {
        "scenario": given.scenario,
        "tasks": len(known),
        "left_out": len(strangers),
        "size": given.size,
        "batches": given.batches,
        "density_bytes_per_task": round(float(np.mean(sizes))),
        "single_rows": single_rows(learner, known, given.rows),
        f"groups_of_{GROUP}": groups(learner, known, given.trials),
        f"groups_of_{GROUP}_of_one_class": groups(learner, known, given.trials, one_class=True),
        f"unlearned_groups_of_{GROUP}": groups(learner, strangers, given.trials) if strangers else None,
    }
    write_record(record, given.json)


if __name__ == "__main__":
    main()
