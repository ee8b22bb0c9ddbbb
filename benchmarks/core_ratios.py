"""What the core must keep: stacked training, structured weights and shared data, each against its plain form.

    python benchmarks/core_ratios.py [--rounds 5] [--json]

Times are taken in turns on rows like MNIST's and compared as ratios. Ends with status 1 where a bound is broken;
milliseconds depend on the machine (the bound is for two cores that have nothing else to do), ratios hardly do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch

from crwn import NeuroModNet, Recipe, Rows
from crwn.bench.measure import alternately
from crwn.training import Step, train
from crwn.training.task import PreparedTask

STACK = 12
ROTATIONS = """
import resource
from pathlib import Path

import torch

import crwn.learner
import crwn.methods
from crwn import make_scenario
from crwn.data import load

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

before = held()
load("mnist")
scenario = make_scenario("rotated-mnist", tasks=36)
tasks = list(scenario)
for task in tasks:
    task.train.inputs(torch.arange(0, len(task.train), 500))
    task.test.inputs(torch.arange(0, len(task.test), 100))
for start in range(0, 60000, 1000):
    tasks[0].train.inputs(slice(start, start + 1000))
print(held() - before, len(tasks))
"""


def tasks_like_mnist(count: int) -> list[PreparedTask]:
    """Random bytes in the shape of MNIST, standardised when gathered; all tasks share them."""
    random = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (6000, 784), dtype=torch.uint8, generator=random)
    y = torch.randint(0, 10, (6000,), generator=random)

    def prepare(batch: torch.Tensor) -> torch.Tensor:
        return batch.to(torch.float32).div_(255).sub_(0.1307).div_(0.3081)

    return [PreparedTask(f"task-{k}", Rows(x, y, prepare=prepare), range(10)) for k in range(count)]


def _note_time(at: list[float], step: Step) -> None:
    at.append(perf_counter())


def learning(model: NeuroModNet, groups: list[list[PreparedTask]], steps: int) -> Callable[[], float]:
    """Learns groups one after another and gives the seconds of a step, summed over groups; the first is not counted."""

    def learn() -> float:
        seconds = 0.0
        for group in groups:
            at: list[float] = []
            train(model, group, Recipe(batches=steps + 1), seed=0, callbacks=[partial(_note_time, at)])
            seconds += (at[-1] - at[0]) / steps
        return seconds

    return learn


def stacked_training(rounds: int) -> dict[str, Any]:
    """FC256: a stack of 12 against the same tasks one after another."""
    model, tasks, steps = NeuroModNet(784, (256, 256), 10, seed=0), tasks_like_mnist(STACK), 20
    sides = {
        "stacked": learning(model, [tasks], steps),
        "one by one": learning(model, [[task] for task in tasks], steps),
    }
    times = alternately(sides, rounds)
    ratios = [a / b for a, b in zip(times["stacked"], times["one by one"], strict=True)]
    return {
        "fc256_ms_per_task_and_step": round(1000 * median(times["stacked"]) / STACK, 3),
        "fc256_stacked_to_one_by_one": round(median(ratios), 3),
    }


def structured_weights(rounds: int) -> dict[str, Any]:
    """FC4096: a step with Hadamard weights against one with dense ones."""
    tasks = tasks_like_mnist(1)
    kinds = ("hadamard", "gaussian")
    models = {kind: NeuroModNet(784, (4096, 4096), 10, seed=0, weights=kind) for kind in kinds}
    times = alternately(
        {kind: learning(models[kind], [tasks], steps) for kind, steps in (("hadamard", 20), ("gaussian", 4))}, rounds
    )
    ratios = [a / b for a, b in zip(times["hadamard"], times["gaussian"], strict=True)]
    bytes_held = [sum(buffer.nbytes for buffer in models[kind].buffers()) for kind in kinds]
    return {
        "fc4096_hadamard_to_dense": round(median(ratios), 4),
        "fc4096_hadamard_ms_per_step": round(1000 * median(times["hadamard"]), 1),
        "fc4096_hadamard_to_dense_memory": round(bytes_held[0] / bytes_held[1], 5),
    }


def memory_of_rotations() -> dict[str, Any]:
    """Megabytes that a process grows by when it holds 36 rotations of MNIST and has read them."""
    done = subprocess.run([sys.executable, "-c", ROTATIONS], capture_output=True, text=True, check=True)
    grown, tasks = (int(word) for word in done.stdout.split())
    return {
        "rotations_mb": round(grown / 1e6, 1),
        "rotations": tasks,
        "rotations_to_copies": round(grown / (tasks * 54.88e6), 4),
    }


BOUNDS = {"fc256_ms_per_task_and_step": 2.5, "fc4096_hadamard_to_dense": 0.1, "rotations_mb": 400.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = {**stacked_training(options.rounds), **structured_weights(options.rounds), **memory_of_rotations()}
    broken = {name: found[name] for name, bound in BOUNDS.items() if found[name] > bound}
    if options.json:
        print(json.dumps({**found, "threads": torch.get_num_threads(), "bounds": BOUNDS, "broken": sorted(broken)}))
    else:
        for name, value in found.items():
            bound = f"   (at most {BOUNDS[name]:g})" if name in BOUNDS else ""
            print(f"{name:34} {value:>10}{bound}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
