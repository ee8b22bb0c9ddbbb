"""What one task costs: learning, bytes, the bank, predictions, and a piece of work on Ray; a minute of measuring.

python benchmarks/scale_costs.py [--width 256]

Computing is measured in seconds of the processor, so that other load does not count; the bank and Ray in wall time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from ray_scaling import overhead, seconds, tasks
from serve_load import Load, make_model, serve

import crwn
from crwn.contexts import Context, now
from crwn.experiments.environment import machine, versions
from crwn.layers import context_tensors
from crwn.models import fingerprint
from crwn.models.functional import mixed_logits
from crwn.training import train
from crwn.training.engines.ray import RayEngine
from crwn.training.stacking import stack_size
from crwn.training.task import PreparedTask

BATCH = 128
WORKER_TASKS = 24
WORKER_BATCHES = 400


def measure(width: int = 256) -> dict[str, Any]:
    """Return all costs, for NeuroModNet of two hidden layers of this width on rows of 784 values."""
    torch.set_num_threads(1)
    record: dict[str, Any] = {
        "width": width,
        "batch_size": BATCH,
        "busy_cores_before": round(psutil.cpu_percent(interval=5) / 100 * (os.cpu_count() or 1), 2),
        "versions": versions(),
        "machine": machine(1),
        "created": now(),
    }
    network = crwn.NeuroModNet(784, (width, width), 10, seed=0)
    return (
        record | _learning(network, width) | _storing(network) | _predicting(network) | _serving(width) | _on_ray(width)
    )


def _learning(network: crwn.NeuroModNet, width: int) -> dict[str, float]:
    stack = stack_size(max(784, width))
    given = [PreparedTask(name, rows, range(10)) for name, rows in tasks(stack, 2000).items()]
    train(network, given, crwn.Recipe(batches=3), seed=0)
    began = time.process_time()
    train(network, given, crwn.Recipe(batches=30), seed=0)
    return {"stack": stack, "core_seconds_per_task_batch": (time.process_time() - began) / 30 / stack}


def _storing(network: crwn.NeuroModNet, count: int = 3000) -> dict[str, float]:
    made = fingerprint(network)
    draw = torch.Generator().manual_seed(0)
    shapes = {name: value.shape for name, value in context_tensors(network).items()}

    def context(i: int) -> Context:
        tensors = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
        return Context(f"customer {i:09d}", tensors, tuple(range(10)), made, now(), {"rows": 1000})

    contexts = [context(i) for i in range(count)]
    found: dict[str, float] = {"params_per_task": contexts[0].params}
    for store in ("float32", "float16", "int8"):
        found[f"bytes_{store}"] = len(contexts[0].to_bytes(store))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.sqlite"
        with crwn.open_bank(path) as bank:
            began = time.perf_counter()
            for at in range(0, count, 1000):
                bank.put_many(contexts[at : at + 1000])
            found["put_seconds"] = (time.perf_counter() - began) / count
            names = [contexts[i].name for i in np.random.default_rng(0).integers(0, count, 300)]
            began = time.perf_counter()
            for name in names:
                bank.get(name)
            found["get_seconds"] = (time.perf_counter() - began) / len(names)
        found["disk_bytes_per_task"] = path.stat().st_size / count
    return found


def _predicting(network: crwn.NeuroModNet) -> dict[str, float]:
    """Return the seconds of a batch whose rows all have tasks of their own: `fixed + rows * each`."""
    times: dict[int, float] = {}
    for rows in (8, 256):
        stack = {name: torch.randn(rows, *value.shape) for name, value in context_tensors(network).items()}
        x = torch.randn(rows, 784)
        mixed_logits(network, stack, x)
        began = time.process_time()
        for _ in range(20):
            mixed_logits(network, stack, x)
        times[rows] = (time.process_time() - began) / 20
    each = max(1e-9, (times[256] - times[8]) / 248)
    return {"answer_seconds_fixed": max(0.0, times[8] - 8 * each), "answer_seconds_per_row": each}


def _serving(width: int, connections: int = 64, taken: float = 4.0) -> dict[str, float]:
    """Return processor seconds that the service spends on one HTTP request of one row, tasks mixed."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", width, "gaussian", 256)
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(str(Path(folder) / "model"), 1, theirs))
        process.start()
        try:
            load = Load(ours.recv(), 256)
            asyncio.run(load.run(4, 1.0))
            before = psutil.Process(process.pid).cpu_times()
            served = asyncio.run(load.run(connections, taken))
            after = psutil.Process(process.pid).cpu_times()
        finally:
            process.terminate()
            process.join(30)
    spent = after.user + after.system - before.user - before.system
    return {"request_core_seconds": spent / served["requests"]}


def _on_ray(width: int) -> dict[str, Any]:
    """Start-up, a piece of work that does nothing, and the same tasks with one worker and with two."""
    found: dict[str, Any] = {"worker_tasks": WORKER_TASKS, "worker_batches": WORKER_BATCHES}
    times: dict[int, list[float]] = {1: [], 2: []}
    for workers in (1, 2, 1, 2):
        began = time.perf_counter()
        with RayEngine(threads=1, workers=workers) as engine:
            seconds(engine, width, WORKER_TASKS, 2000, 1)  # imports torch and makes the model on every worker
            found["ray_start_seconds"] = time.perf_counter() - began
            times[workers] += [seconds(engine, width, WORKER_TASKS, 2000, WORKER_BATCHES) for _ in range(2)]
            found["ray_seconds_per_piece"] = overhead(engine)
    for workers, taken in times.items():
        found[f"all_seconds_{workers}_workers"] = taken
        found[f"seconds_{workers}_workers"] = statistics.median(taken)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    print(json.dumps(measure(parser.parse_args().width), indent=2))
