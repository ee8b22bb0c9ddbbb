"""What storing contexts in fewer bits costs: the tasks of a finished run, stored as float32, float16 and int8.

    python benchmarks/store_accuracy.py results/rotated-mnist/neuromodnet-256/seed-0 --json record.json

The run folder must hold its bank (a fresh run does; committed records leave it out). Every context goes through
the bytes that a bank stores and is evaluated on all test rows of its task.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from run_states import require_states
from write_record import write_record

from crwn.contexts import STORES, Context
from crwn.errors import CRWNError
from crwn.experiments import RunFolder
from crwn.experiments.reopen import reopen
from crwn.learner import Learner
from crwn.training.evaluation import accuracy, predict_logits


def measure(run: Path) -> dict[str, Any]:
    """Return the mean accuracy over the tasks, and the bytes of one task, by how contexts are stored."""
    require_states(run)
    experiment = reopen(run)
    tasks = experiment.scenario[: len(RunFolder(run).lines())]
    found: dict[str, Any] = {"run": experiment.config.command, "tasks": len(tasks)}
    with Learner.load(run) as learner:
        contexts = [learner.context(task.name) for task in tasks]
        model = learner.model
    for store in STORES:
        accuracies = []
        for task, context in zip(tasks, contexts, strict=True):
            kept = Context.from_bytes(context.to_bytes(store))
            logits = predict_logits(model, kept.tensors, task.test, classes=len(task.classes))
            accuracies.append(100 * accuracy(logits, task.test.labels(slice(None))))
        found[store] = {
            "accuracy": round(statistics.fmean(accuracies), 3),
            "worst_task": round(min(accuracies), 2),
            "bytes": len(contexts[0].to_bytes(store)),
        }
        print(store, found[store], file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="+", help="run folders of neuromodnet or flynet")
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    try:
        found = [measure(run) for run in given.run]
    except CRWNError as error:
        raise SystemExit(f"error: {error}") from None
    write_record({"runs": found}, given.json)


if __name__ == "__main__":
    main()
