"""Two Ray workers against one, with one thread each: the same tasks, start-up excluded.

python benchmarks/ray_scaling.py [--tasks 24] [--batches 200] [--rounds 3] [--json]

Rows are of MNIST's size but random: what is measured does not depend on their values.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import time
from typing import Any

import torch

import crwn
from crwn.data.dataset import Rows
from crwn.experiments.environment import machine, versions
from crwn.layers.weights import named_generator
from crwn.training.engines.ray import RayEngine


def tasks(count: int, rows: int) -> dict[str, Rows]:
    """Tasks that share their rows, each with labels of its own."""
    draw = named_generator("ray_scaling")
    x = torch.from_numpy(draw.integers(0, 256, (rows, 784)).astype("uint8"))
    return {f"task-{i:03d}": Rows(x, torch.from_numpy(draw.integers(0, 10, rows))) for i in range(count)}


def seconds(engine: Any, width: int, count: int, rows: int, batches: int) -> float:
    learner = crwn.Learner(crwn.NeuroModNet(784, (width, width), 10, seed=0))
    given = tasks(count, rows)
    began = time.perf_counter()
    learner.learn_many(given, batches=batches, progress=False, engine=engine)
    return time.perf_counter() - began


def overhead(engine: RayEngine) -> float:
    """Seconds that a piece of work which does nothing costs."""
    began = time.perf_counter()
    assert len(list(engine.run([_Nothing()] * 200))) == 200
    return (time.perf_counter() - began) / 200


class _Nothing:
    """Work that takes no time."""

    def do(self, callbacks: Any = ()) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()
    sizes = (wanted.width, wanted.tasks, wanted.rows, wanted.batches)
    times: dict[str, list[float]] = {"local": [], "1": [], "2": []}
    spent = 0.0
    for _ in range(wanted.rounds):
        times["local"].append(seconds("local", *sizes))
        for workers in (1, 2):
            with RayEngine(threads=1, workers=workers) as engine:
                # Every worker imports torch and makes the model before the clock runs.
                seconds(engine, wanted.width, max(wanted.tasks, 17), wanted.rows, 1)
                times[str(workers)].append(seconds(engine, *sizes))
                spent = overhead(engine)
    median = {name: statistics.median(found) for name, found in times.items()}
    record = {
        "benchmark": "ray_scaling",
        "command": shlex.join(["python", *sys.argv]),
        "width": wanted.width,
        "tasks": wanted.tasks,
        "batches": wanted.batches,
        "seconds": times,
        "seconds_per_task_batch_one_core": median["local"] / wanted.tasks / wanted.batches,
        "two_workers_over_one": median["1"] / median["2"],
        "one_worker_over_local": median["1"] / median["local"],
        "seconds_per_piece": spent,
        "load_before": load,
        "versions": versions(),
        "machine": machine(1),
    }
    print(
        json.dumps(record, indent=2) if wanted.json else f"two workers are {record['two_workers_over_one']:.2f} x one"
    )


if __name__ == "__main__":
    main()
