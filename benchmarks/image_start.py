"""Where NeuroModNet should start on images, and at which rate: the first tasks of Split-CIFAR100, short schedule.

    python benchmarks/image_start.py --record results/bench/image_start.json

Every candidate differs from the method's usual settings in one thing. It learns from four fifths of a task's training
images and is evaluated on the rest; the test images are never read. STL, on the same images, shows how hard the tasks
are. Finished candidates are in the record; the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.experiments.experiment import accuracy
from crwn.layers.weights import named_generator
from crwn.methods import make_method
from crwn.scenarios import Scenario, Task, make_scenario

CANDIDATES: dict[str, tuple[str, dict[str, str]]] = {
    "as it is: v uniform, rate 0.1, momentum of statistics 0.1": ("neuromodnet", {}),
    "v starts at ones": ("neuromodnet", {"start": "ones"}),
    "v starts three times as wide": ("neuromodnet", {"start_scale": "3"}),
    "rate 0.03": ("neuromodnet", {"rate": "0.03"}),
    "rate 0.3": ("neuromodnet", {"rate": "0.3"}),
    "momentum of statistics 0.01": ("neuromodnet", {"statistics_momentum": "0.01"}),
    "momentum of statistics 0.3": ("neuromodnet", {"statistics_momentum": "0.3"}),
    "STL": ("stl", {}),
}


def held_out(task: Task) -> Task:
    """The task with every fifth training image, by chance, in the place of its test images."""
    order = torch.from_numpy(named_generator("held out", task.name).permutation(len(task.train)))
    cut = len(order) // 5
    return replace(task, train=task.train.select(order[cut:]), test=task.train.select(order[:cut]))


def judge(scenario: Scenario, method_name: str, settings: dict[str, str], epochs: int) -> list[float]:
    """Accuracy on each task's held-out images."""
    method, overrides = make_method(method_name, scenario, size="1d", seed=0, settings=settings)
    recipe = method.recipe(**overrides, epochs=epochs, compile=False)
    found = []
    for task in scenario:
        method.learn([task], recipe)
        found.append(round(accuracy(method, task, task.test), 2))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    length = {"tasks": options.tasks, "epochs": options.epochs}
    whole = make_scenario("split-cifar100", seed=0, tasks=options.tasks)
    scenario = Scenario(
        whole.name, [held_out(t) for t in whole], seed=0, input_shape=whole.input_shape, budget=whole.budget
    )
    record: dict[str, Any] = {**heading(quick=False, seed=0), **length, "candidates": {}}
    if options.record.exists():
        record = json.loads(options.record.read_text())
        if {key: record[key] for key in length} != length:
            sys.exit(f"{options.record} has other lengths than {length}: give another --record")
    for name, (method, settings) in CANDIDATES.items():
        if name not in record["candidates"]:
            found = judge(scenario, method, settings, options.epochs)
            record["candidates"][name] = {"accuracies": found, "mean": round(sum(found) / len(found), 2)}
            write_whole(options.record, (json.dumps(record, indent=1) + "\n").encode())
        print(f"{name}: {record['candidates'][name]}", flush=True)


if __name__ == "__main__":
    main()
