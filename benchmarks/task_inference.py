"""How well and how fast a group's task is inferred: every context tried, or a few that are likely.

    python benchmarks/task_inference.py permuted-mnist --tasks 100 --size 1024 --batches 1000 --json record.json

"sketch" tries only the contexts whose own rows were most like the group, "one-shot" those that gradients of a mixture
of all contexts point to. Some tasks of the scenario are left unlearned: how often these, and learned ones, are rejected
as none of the known tasks is counted too. `--cost-tasks` measures the time with that many contexts (learned ones with
noise). `--supsup` takes a finished run of SupSup on the same scenario and infers the task of the same groups from its
masks, in the ways its authors describe: one gradient of the superposed masks, and halving by such gradients.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from run_states import require_states
from torch import Tensor
from write_record import write_record

from crwn import Learner, NeuroModNet, make_scenario
from crwn.contexts import Context
from crwn.errors import ConfigError
from crwn.experiments.reopen import relearned
from crwn.layers.weights import named_generator
from crwn.learner.ranking import none_fits
from crwn.methods.supsup import SuperposedMasks, SupSup
from crwn.scenarios import Scenario, Task

GROUPS = (1, 4, 16, 64)
METHODS = ("exhaustive", "auto", "sketch", "one-shot")


def accuracies(learner: Learner, scenario: Scenario, learned: Sequence[int], trials: int, keep: int) -> dict[str, Any]:
    """Return how often the task is right by group size and method, over groups of all learned tasks' test rows."""
    found: dict[str, Any] = {}
    for size in GROUPS:
        right = dict.fromkeys(METHODS, 0)
        rejected = 0
        random = named_generator("groups", size)
        for _ in range(trials):
            task, rows = _group(scenario, learned, size, random)
            for method in METHODS:
                ranking = learner.infer_task(rows, method=method, keep=keep)  # type: ignore[arg-type]
                right[method] += ranking[0].task == task.name
                if method == "auto":
                    rejected += bool(none_fits(ranking))
        found[str(size)] = {method: round(100 * right[method] / trials, 2) for method in METHODS}
        found[str(size)]["none said of learned tasks"] = round(100 * rejected / trials, 2)
    return found


def _group(scenario: Scenario, among: Sequence[int], size: int, random: np.random.Generator) -> tuple[Task, Tensor]:
    task = scenario[int(random.choice(among))]
    return task, task.test.inputs(torch.from_numpy(random.choice(len(task.test), size, replace=False)))


def supsup(run: Path, scenario: Scenario, learned: Sequence[int], trials: int) -> dict[str, Any]:
    """Return how often SupSup's masks give the right task for the same groups."""
    method, known = _supsup_of(run)
    tasks = [scenario[i] for i in learned]
    missing = [task.name for task in tasks if task.name not in known]
    if missing:
        raise SystemExit(f"{run} has not learned {len(missing)} of these tasks: {', '.join(missing[:3])} ...")
    masks = SuperposedMasks(method, tasks)
    found: dict[str, Any] = {"size": "256", "tasks": len(tasks)}
    for size in GROUPS:
        right = {"one-shot": 0, "binary": 0}
        random = named_generator("groups", size)
        for _ in range(trials):
            task, rows = _group(scenario, learned, size, random)
            right["one-shot"] += masks.one_shot(rows) == task.name
            right["binary"] += masks.binary(rows) == task.name
        found[str(size)] = {way: round(100 * count / trials, 2) for way, count in right.items()}
    return found


def _supsup_of(run: Path) -> tuple[SupSup, set[str]]:
    """SupSup with the masks that a finished run keeps in its state/, and the names of its tasks."""
    bench = relearned(run)
    if not isinstance(bench.method, SupSup):
        raise SystemExit(f"{run} is a run of {bench.config.method}, not of supsup")
    return bench.method, set(bench.method.contexts)


def unlearned(learner: Learner, scenario: Scenario, left_out: Sequence[int], trials: int) -> dict[str, float]:
    """Return how often tasks that were never learned are rejected, percent by group size."""
    found = {}
    for size in GROUPS:
        rejected = 0
        random = named_generator("strangers", size)
        for _ in range(trials):
            _, rows = _group(scenario, left_out, size, random)
            rejected += bool(none_fits(learner.infer_task(rows)))
        found[str(size)] = round(100 * rejected / trials, 2)
    return found


def cost(learner: Learner, scenario: Scenario, tasks: int, rows: int = 16, repeats: int = 5) -> dict[str, float]:
    """Milliseconds that one inference takes with this many tasks."""
    wide = Learner(learner.model, resident=max(tasks, 1024))
    known = [learner.context(name) for name in learner.tasks]
    generator = torch.Generator().manual_seed(0)
    for at in range(0, tasks, 1000):
        wide.bank.put_many(
            Context(
                f"task {i:06}",
                {
                    key: v + 0.05 * torch.randn(v.shape, generator=generator)
                    for key, v in known[i % len(known)].tensors.items()
                },
                known[i % len(known)].classes,
                wide.fingerprint,
                info=known[i % len(known)].info,
            )
            for i in range(at, min(at + 1000, tasks))
        )
    x = scenario[0].test.inputs(slice(0, rows))
    return {method: _milliseconds(lambda m=method: wide.infer_task(x, method=m), repeats) for method in METHODS}  # type: ignore[misc]


def _milliseconds(do: Callable[[], Any], repeats: int) -> float:
    do()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        do()
        times.append(time.perf_counter() - began)
    return round(1000 * statistics.median(times), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=["permuted-mnist", "rotated-mnist"])
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--left-out", type=int, default=4, help="tasks of the scenario that are not learned")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--weights", default="gaussian")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--keep", type=int, default=24, help="how many likely contexts are tried")
    parser.add_argument("--cost-tasks", type=int, default=1000)
    parser.add_argument("--model", type=Path, help="a model folder to keep the tasks in, or to take them from")
    parser.add_argument(
        "--supsup", type=Path, help="a run folder of SupSup on the same scenario and seed, with its state"
    )
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    try:
        if given.supsup:
            require_states(given.supsup)
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from None

    # Rotations are whole circles: every few tasks one is left out, so that unlearned tasks lie between learned ones.
    every = make_scenario(given.scenario, seed=0, tasks=given.tasks + given.left_out)
    spacing = len(every) / max(1, given.left_out)
    left_out = sorted({int(i * spacing + spacing / 2) for i in range(given.left_out)})
    if given.scenario == "permuted-mnist":  # permutations have no neighbours: any will do
        left_out = list(range(given.tasks, len(every)))
    learned = [i for i in range(len(every)) if i not in left_out]
    shape = {"in_features": 784, "hidden": (given.size, given.size), "classes": 10, "weights": given.weights}
    learner = Learner(NeuroModNet(**shape, seed=0), bank=given.model, resident=max(1024, len(every)))
    began = time.perf_counter()
    missing = {every[i].name: every[i].train for i in learned if every[i].name not in learner.bank}
    if missing:
        learner.learn_many(missing, batches=given.batches)
    learning = time.perf_counter() - began
    record = {
        "scenario": given.scenario,
        "tasks": len(learned),
        "left_out": len(left_out),
        "size": given.size,
        "weights": given.weights,
        "batches": given.batches,
        "trials": given.trials,
        "keep": given.keep,
        "seconds_learning": round(learning, 1),
        "right_percent": accuracies(learner, every, learned, given.trials, given.keep),
        "none_said_of_strangers_percent": unlearned(learner, every, left_out, given.trials) if left_out else None,
        "supsup_right_percent": supsup(given.supsup, every, learned, given.trials) if given.supsup else None,
        "milliseconds": {str(count): cost(learner, every, count) for count in sorted({len(learned), given.cost_tasks})},
    }
    write_record(record, given.json)


if __name__ == "__main__":
    main()
