"""Why methods are in the order they are: runs of one scenario compared image by image.

    python benchmarks/method_order.py results/split-cifar100/{stl,supsup}-1d-tasks=2/seed-0 --record order.json

For the first tasks of every run: the share of training images (as they are, not shifted or mirrored) and of test
images it classifies correctly. A method that has all training images right is not limited by what it can express. Then
every run is compared with the first: on which test images only one of the two is right, and how often chance alone
would divide those as unevenly (exact sign test). Nothing is learned: the run folders must hold their `state/`, which
committed records leave out.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from run_states import require_states
from torch import Tensor

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.data.dataset import Rows
from crwn.errors import CRWNError
from crwn.experiments import RunFolder
from crwn.experiments.reopen import relearned


def by_chance(ours: int, theirs: int) -> float:
    """How often fair coins divide `ours + theirs` throws at least as unevenly.

    >>> by_chance(0, 5)
    0.0625
    """
    count = ours + theirs
    tail = sum(math.comb(count, i) for i in range(min(ours, theirs) + 1))
    return min(1.0, 2 * tail / 2**count)


def correct(run: Path, tasks: int) -> tuple[list[Tensor], list[Tensor]]:
    """Which training and which test images of each task the run's method gets right."""
    require_states(run)
    bench = relearned(run, tasks=tasks)
    if len(bench.scenario) < tasks:
        raise SystemExit(f"{run} has {len(bench.scenario)} tasks, not {tasks}")

    def right(task: Any, rows: Rows) -> Tensor:
        return bench.method.logits(task, rows).argmax(dim=1) == rows.labels(slice(None))

    chosen = list(bench.scenario)[:tasks]
    return [right(task, task.train) for task in chosen], [right(task, task.test) for task in chosen]


def compare(runs: list[Path], tasks: int) -> dict[str, Any]:
    """One entry per run, by the name of its folder; the first is what the others are compared with."""
    found: dict[str, Any] = {}
    base: Tensor | None = None
    for run in runs:
        training, test = correct(run, tasks)
        together = torch.cat(test)
        record = RunFolder(run).record() or {}
        entry: dict[str, Any] = {
            "command": record.get("command"),
            "training_accuracy": _percent(torch.cat(training)),
            "test_accuracy": _percent(together),
            "test_accuracies": [_percent(one) for one in test],
        }
        if base is None:
            base = together
        else:
            ours, theirs = int((together & ~base).sum()), int((base & ~together).sum())
            entry |= {
                "only_this_right": ours,
                "only_first_right": theirs,
                "by_chance": float(f"{by_chance(ours, theirs):.2g}"),
            }
        found[f"{run.parent.name}/{run.name}"] = entry
        print(f"{run.parent.name}/{run.name}: { {k: v for k, v in entry.items() if k != 'command'} }", flush=True)
    return found


def _percent(right: Tensor) -> float:
    return round(100 * right.double().mean().item(), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders (.../seed-0); the first is compared with")
    parser.add_argument("--tasks", type=int, default=2, help="look at this many tasks, the first ones")
    parser.add_argument("--record", type=Path, help="write the record here")
    given = parser.parse_args()
    if given.tasks < 1:
        raise SystemExit(f"error: --tasks must be at least 1, got {given.tasks}")
    try:
        found = compare(given.runs, given.tasks)
    except CRWNError as error:
        raise SystemExit(f"error: {error}") from None
    if given.record:
        record = {**heading(quick=False, seed=0), "tasks": given.tasks, "runs": found}
        write_whole(given.record, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
