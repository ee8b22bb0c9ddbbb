"""What keeping contexts in fewer bits costs: the tasks of a finished run, kept as float32, float16 and int8.

    python benchmarks/store_accuracy.py results/rotated-mnist/neuromodnet-256/seed-0 --json record.json

The run folder must have its state/ (a fresh run has it; committed records leave it out). Every context goes through
the bytes that a bank keeps and is evaluated on all test rows of its task.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from crwn.context import STORES, Context
from crwn.experiments import RunFolder
from crwn.experiments.reopened import reopen
from crwn.experiments.surroundings import machine, versions
from crwn.prediction import accuracy, predict_logits


def measure(run: Path) -> dict[str, Any]:
    """Mean accuracy over the tasks, and bytes of one task, by how contexts are kept."""
    bench, files = reopen(run), RunFolder(run)
    found: dict[str, Any] = {"run": bench.config.command, "tasks": len(files.lines())}
    contexts = [
        Context(task.name, files.read_state(f"task-{i:03d}", line.get("state")), task.classes, "0" * 64)
        for i, (task, line) in enumerate(zip(bench.scenario, files.lines(), strict=False))
    ]
    for store in STORES:
        accuracies = []
        for task, context in zip(bench.scenario, contexts, strict=False):
            kept = Context.from_bytes(context.to_bytes(store))
            logits = predict_logits(bench.method.model, kept.tensors, task.test)  # type: ignore[attr-defined]
            accuracies.append(100 * accuracy(logits, task.test.labels(slice(None))))
        found[store] = {
            "accuracy": round(statistics.fmean(accuracies), 3),
            "worst_task": round(min(accuracies), 2),
            "bytes": len(contexts[0].to_bytes(store)),
        }
        print(store, found[store], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="+", help="run folders of neuromodnet or flynet")
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "machine": machine(torch.get_num_threads()),
        "versions": versions(),
        "runs": [measure(run) for run in given.run],
    }
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
