"""One head over all classes, with its tasks learned in several orders: how many answers depend on the order.

    python benchmarks/shared_head_order.py --json results/bench/shared_head_order.json

Probabilities of answers are compared with how often they are right (expected calibration error, ten bins).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from write_record import write_record

from crwn import make_scenario
from crwn.layers.weights import named_generator
from crwn.methods import Method, make_method
from crwn.scenarios import Scenario, Task


def orders(scenario: Scenario, count: int) -> list[list[Task]]:
    """The order of the scenario, its reverse, and permutations."""
    tasks = list(scenario)
    found = [tasks, tasks[::-1]]
    for number in range(2, count):
        at = named_generator("order", number).permutation(len(tasks))
        found.append([tasks[place] for place in at.tolist()])
    return found[:count]


def answers(method: Method, learned: list[Task], scenario: Scenario) -> tuple[Tensor, Tensor, Tensor]:
    """For the test rows of all tasks: the class answered, the right one, and the probability of the answer."""
    # The shared head adds up its tasks when it is first asked, in the order that it is asked in.
    method.joint_logits(learned, learned[0].test.select(torch.arange(1)))
    first = np.cumsum([0, *(len(task.classes) for task in scenario)])
    found, right, share = [], [], []
    for at, task in enumerate(scenario):
        logits = method.joint_logits(list(scenario), task.test)
        assert logits is not None
        probability, best = logits.double().softmax(dim=1).max(dim=1)
        found.append(best)
        share.append(probability)
        right.append(task.test.labels(slice(None)) + int(first[at]))
    return torch.cat(found), torch.cat(right), torch.cat(share)


def calibration_error(share: Tensor, hit: Tensor) -> float:
    """Mean distance between the probability of answers and the share of them that is right, over ten bins."""
    bins = (10 * share).long().clamp_max(9)
    parts = [(bins == one) for one in bins.unique()]
    return float(sum((share[part].mean() - hit[part].double().mean()).abs() * part.double().mean() for part in parts))


def measure(scenario: Scenario, given: argparse.Namespace) -> dict[str, Any]:
    """Accuracy in every order, and the percentage of rows whose answer is not that of the first order."""
    accuracies, differs, errors = [], [], []
    began = time.process_time()
    first: Tensor | None = None
    settings = {"head_units": str(given.units)} if given.method == "backbone" else {}
    for order in orders(scenario, given.orders):
        method = make_method(given.method, scenario, settings=settings)[0]
        best, right, share = answers(method, order, scenario)
        first = best if first is None else first
        accuracies.append(round(100 * float((best == right).double().mean()), 2))
        differs.append(round(100 * float((best != first).double().mean()), 3))
        errors.append(round(calibration_error(share, best == right), 4))
    return {
        "class_right_percent": accuracies,
        "answers_changed_percent": differs,
        "calibration_error": errors[0],
        "processor_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="split-cifar100")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--method", default="backbone", choices=["backbone", "flynet"])
    parser.add_argument("--units", type=int, default=2000, help="frozen random units on the features of a backbone")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    scenario = make_scenario(given.scenario, tasks=given.tasks)
    record: dict[str, Any] = {
        "scenario": given.scenario,
        "tasks": len(scenario),
        "classes": sum(len(task.classes) for task in scenario),
        "method": given.method,
        "units": given.units if given.method == "backbone" else None,
        "orders": given.orders,
        **measure(scenario, given),
    }
    write_record(record, given.json)


if __name__ == "__main__":
    main()
