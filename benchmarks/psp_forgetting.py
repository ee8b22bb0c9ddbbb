"""What PSP forgets on Rotation-MNIST, and what it does not depend on: the rate, and whether the optimizer is kept.

    python benchmarks/psp_forgetting.py --tasks 10 --json

The published average over 36 rotations is what PSP reaches here right after learning each task; at the end of the
sequence it is lower. This script tries ways of training that might forget so little that both agree.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from crwn.bench.record import heading
from crwn.data.dataset import visiting_order
from crwn.experiments.experiment import accuracy
from crwn.experiments.metrics import average, forgetting
from crwn.methods.psp import PSP
from crwn.scenarios import Scenario, Task, make_scenario

WAYS: dict[str, dict[str, Any]] = {
    "as published: RMSprop 1e-4, begun anew for every task": {},
    "RMSprop 1e-4 kept over the tasks": {"kept": True},
    "RMSprop 3e-5": {"rate": 3e-5},
    "SGD 0.01, momentum 0.9": {"sgd": True, "rate": 0.01},
}


def learn_all(
    scenario: Scenario, *, batches: int, rate: float = 1e-4, kept: bool = False, sgd: bool = False
) -> list[Any]:
    """Return accuracies right after learning each task, and of all tasks at the end."""
    method = PSP(scenario, size="256", seed=0, options=PSP.Options())
    weights = {name: value.clone().requires_grad_() for name, value in method.weights.items()}
    method.weights = weights
    after: list[float] = []
    optimizer: torch.optim.Optimizer | None = None
    for task in scenario:
        if optimizer is None or not kept:
            leaves = list(weights.values())
            optimizer = torch.optim.SGD(leaves, rate, momentum=0.9) if sgd else torch.optim.RMSprop(leaves, rate)
        method.prepared(task)  # the network now has the rotations of this task
        _learn(method, task, weights, optimizer, batches)
        after.append(accuracy(method, task, task.test))
    return [after, [accuracy(method, task, task.test) for task in scenario]]


def _learn(method: PSP, task: Task, weights: dict[str, Tensor], optimizer: torch.optim.Optimizer, batches: int) -> None:
    for at in visiting_order(len(task.train), 128, batches, seed=0, name=task.name):
        logits = functional_call(method.model, weights, (task.train.inputs(at),))
        optimizer.zero_grad()
        F.cross_entropy(logits, task.train.labels(at)).backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scenario = make_scenario(f"rotated-{options.data}", seed=0, tasks=options.tasks)
    rows = {}
    for name, how in WAYS.items():
        after, final = learn_all(scenario, batches=options.batches, **how)
        rows[name] = {
            "right_after_learning": round(average(after), 2),
            "at_the_end": round(average(final), 2),
            "forgetting": round(forgetting(after, final) or 0.0, 2),
        }
        if not options.json:
            print(f"{name}: {rows[name]}", flush=True)
    if options.json:
        facts = {"tasks": options.tasks, "batches": options.batches}
        print(json.dumps({**heading(quick=False, seed=0), **facts, "ways": rows}, indent=1))


if __name__ == "__main__":
    main()
