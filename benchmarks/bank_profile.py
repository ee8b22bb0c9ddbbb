"""Where a bank's reads and writes spend their time: the functions of Python's profiler, by their own time.

    python benchmarks/bank_profile.py --json record.json
    python benchmarks/bank_profile.py --before record.json --json results/bench/bank_profile.json

Contexts have the shapes of NeuroModNet-FC256 on MNIST. `--before` puts a record of earlier code beside the new one.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from write_record import write_record

from crwn.contexts import Context
from crwn.contexts.bank import ResidentStack, open_bank

WIDTHS = (784, 256, 256)
SHAPES: dict[str, tuple[int, ...]] = {f"layers.{i}.v": (width,) for i, width in enumerate(WIDTHS)}
SHAPES |= {f"layers.{i}.alpha": () for i in range(len(WIDTHS))}
BATCH = 256
SHOWN = 8


def make(name: str, generator: torch.Generator) -> Context:
    tensors = {key: torch.randn(shape, generator=generator) for key, shape in SHAPES.items()}
    info = {"rows": 60000, "steps": 1000, "accuracy": 91.2}
    return Context(name, tensors, tuple(range(10)), "ab" * 32, "2026-01-01T00:00:00+00:00", info)


def profiled(work: Callable[[Sequence[str]], object], batches: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Median microseconds per task of `work`, and the functions with the most time of their own, by a second pass."""
    times = []
    for names in batches:
        begun = time.perf_counter()
        work(names)
        times.append((time.perf_counter() - begun) / len(names))
    profile = cProfile.Profile()
    with profile:
        for names in batches:
            work(names)
    # Each value: calls, calls without recursion, own seconds, seconds with callees, callers.
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(one[2] for one in stats.values())
    largest = sorted(stats.items(), key=lambda one: -one[1][2])[:SHOWN]
    shares = {f"{Path(file).name}:{name}": round(one[2] / total, 3) for (file, _, name), one in largest}
    calls = sum(one[0] for one in stats.values()) / sum(map(len, batches))
    return {
        "us_per_task": round(statistics.median(times) * 1e6, 1),
        "calls_per_task": round(calls, 1),
        "own_time": shares,
    }


def run(tasks: int = 5000, batches: int = 40) -> dict[str, Any]:
    """Profiles of `get`, `get_many`, of contexts taken into memory, and of `put_many`."""
    generator = torch.Generator().manual_seed(0)
    names = [f"customer {number:07}" for number in range(tasks)]
    order = [names[at] for at in torch.randint(tasks, (batches * BATCH,), generator=generator).tolist()]
    asked = [list(dict.fromkeys(order[at : at + BATCH])) for at in range(0, len(order), BATCH)]
    contexts = {name: make(name, generator) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        with open_bank(Path(folder) / "other.sqlite") as other:
            parts = [names[at : at + 500] for at in range(0, tasks, 500)]
            put = profiled(lambda some: other.put_many([contexts[name] for name in some], replace=True), parts)
        with open_bank(Path(folder) / "bank.sqlite") as bank:
            bank.put_many(contexts.values())
            return {
                "get": profiled(lambda some: [bank.get(name) for name in some], asked),
                "get_many": profiled(bank.get_many, asked),
                "taken_into_memory": profiled(lambda some: ResidentStack(bank, SHAPES).load(some), asked),
                "put_many": put,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--before", type=Path, help="record of earlier code")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"tasks": given.tasks, "after": run(given.tasks)}
    if given.before is not None:
        record["before"] = json.loads(given.before.read_text())["after"]
    write_record(record, given.json)


if __name__ == "__main__":
    main()
