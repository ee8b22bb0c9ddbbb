"""Why local modulation alone is above the paper's: Rotation-MNIST, one thing changed at a time.

    python benchmarks/local_only.py --record results/bench/local_only.json

Every candidate learns the first rotations with the paper's schedule (1,000 batches of 128, RMSprop); each differs from
local modulation as crwn has it in one thing. Reported is the mean test accuracy and how far it is from learning v and
alpha together, beside the same difference in the paper's Table 3. Finished candidates are in the record; the same
command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario, make_scenario
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.loop import train
from crwn.training.recipe import make_recipe
from crwn.training.task import PreparedTask

# Local minus both in the paper's Table 3.
PAPER = {256: -0.47, 512: -0.51, 1024: -0.54, 2048: -0.58, 4096: -0.70}
BOTH = "both: v and alpha are learned"
CANDIDATES: dict[str, dict[str, Any]] = {
    BOTH: {"modulation": "both"},
    "local: alpha is 1": {},
    "alpha is 0.5": {"alpha": 0.5},
    "alpha is 2": {"alpha": 2.0},
    "v starts half as wide": {"start_scale": 0.5},
    "v starts three times as wide": {"start_scale": 3.0},
    "v starts at ones": {"start": "ones"},
    "rate 0.005": {"rate": 0.005},
    "rate 0.02": {"rate": 0.02},
    "weight decay 1e-4": {"weight_decay": 1e-4},
}


def judge(scenario: Scenario, width: int, weights: str, changes: dict[str, Any]) -> list[float]:
    """Test accuracy of every task, all learned at once."""
    changes = {"modulation": "local"} | changes
    recipe = make_recipe(batches=1000, **{key: changes.pop(key) for key in ("rate", "weight_decay") if key in changes})
    alpha = changes.pop("alpha", 1.0)
    (features,) = scenario.input_shape
    model = NeuroModNet(features, (width, width), scenario.num_classes, seed=0, weights=weights, **changes)
    if alpha != 1.0:
        for layer in model.layers:
            layer.get_buffer("alpha").fill_(alpha)
    tasks = [PreparedTask(task.name, task.train, task.classes) for task in scenario]
    learned = train(model, tasks, recipe, seed=0)
    with torch.no_grad():
        return [
            round(100 * accuracy(predict_logits(model, one.tensors, task.test), task.test.labels(slice(None))), 2)
            for one, task in zip(learned, scenario, strict=True)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    if options.tasks < 1 or any(width not in PAPER for width in options.widths):
        sys.exit(
            f"--tasks must be at least 1 and --widths among {sorted(PAPER)}, got {options.tasks}, {options.widths}"
        )
    scenario = make_scenario("rotated-mnist", seed=0, tasks=options.tasks)
    record: dict[str, Any] = {**heading(quick=False, seed=0), "tasks": options.tasks, "widths": {}}
    if options.record.exists():
        record = json.loads(options.record.read_text())
        if record["tasks"] != options.tasks:
            sys.exit(f"{options.record} has {record['tasks']} tasks, not {options.tasks}: give another --record")
    for width in options.widths:
        weights = "gaussian" if width < 1024 else "hadamard"
        of_width = record["widths"].setdefault(
            str(width), {"weights": weights, "paper": PAPER[width], "candidates": {}}
        )
        found = of_width["candidates"]
        for name, changes in CANDIDATES.items():
            if name not in found:
                accuracies = judge(scenario, width, weights, changes)
                mean = round(sum(accuracies) / len(accuracies), 2)
                both = mean if name == BOTH else found[BOTH]["mean"]
                found[name] = {"accuracies": accuracies, "mean": mean, "minus_both": round(mean - both, 2)}
                write_whole(options.record, (json.dumps(record, indent=1) + "\n").encode())
            print(f"FC{width} ({weights}), {name}: {found[name]}", flush=True)


if __name__ == "__main__":
    main()
