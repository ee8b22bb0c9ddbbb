"""What FlyNet on images should be made of: encoders, then recipes of the decoder, on Split-CIFAR100's first tasks.

    python benchmarks/image_search.py --record results/bench/image_search.json

Every candidate learns from four fifths of a task's training images and is evaluated on the rest, once as it is and once
with the features of image and mirror image averaged; the test images are never read. A candidate of the first list
differs from the plain encoder in what its name says, one of the second list from the recipe `image_recipe`, with
the encoder it names. Finished candidates are in the record; the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.data.dataset import Rows
from crwn.layers.weights import named_generator
from crwn.methods.flynet import BEST_DECAY
from crwn.models import ImageFlyNet
from crwn.models.image_flynet import BEST_SPREAD, best_image_structure
from crwn.scenarios import Task, make_scenario
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.loop import train
from crwn.training.recipe import image_recipe, make_recipe
from crwn.training.task import PreparedTask

EPOCHS = 40
SIX: dict[str, Any] = {"sides": (6,)}
HALF: dict[str, Any] = {"root": True, "threshold": 0.5}
ENCODERS: dict[str, dict[str, Any]] = {
    "plain": {"filters": 272, "root": False, "threshold": 1.0} | SIX,
    "threshold 0.5": {"filters": 272, "root": False, "threshold": 0.5} | SIX,
    "threshold 1.5": {"filters": 272, "root": False, "threshold": 1.5} | SIX,
    "roots": {"filters": 272, "root": True, "threshold": 1.0} | SIX,
    "roots, threshold 0.5": {"filters": 272} | HALF | SIX,
    "roots, threshold 0.25": {"filters": 272, "root": True, "threshold": 0.25} | SIX,
    "roots, filters of 4 and 8": {"filters": 272, "sides": (4, 8)} | HALF,
    "roots, grid 4": {"filters": 152, "grid": 4} | HALF | SIX,
    "roots, grid 2": {"filters": 624, "grid": 2} | HALF | SIX,
    "roots, filters of 8": {"filters": 272, "sides": (8,)} | HALF,
    "roots, filters of 4, 8 and 12": {"filters": 272, "sides": (4, 8, 12)} | HALF,
    "roots, shifted copies": {"filters": 272, "shift": 2} | HALF | SIX,
    "roots, filters of 4 and 8, shifted copies": {"filters": 272, "sides": (4, 8), "shift": 2} | HALF,
    "roots, filters of 4 and 8, shifted by 1": {"filters": 272, "sides": (4, 8), "shift": 1} | HALF,
    "roots, no mirrored copies": {"filters": 272, "mirror": False} | HALF | SIX,
}
RECIPES: dict[str, dict[str, Any]] = {
    "decay 0.0003": {"weight_decay": 3e-4},
    "decay 0.003": {"weight_decay": 3e-3},
    "decay 0.01": {"weight_decay": 1e-2},
    "no label smoothing": {"label_smoothing": 0.0},
    "label smoothing 0.2": {"label_smoothing": 0.2},
    "rate 0.01": {"rate": 0.01},
    "rate 0.05": {"rate": 0.05},
    "batches of 512": {"batch_size": 512},
    "80 epochs": {"epochs": 80},
}
BEST: dict[str, Any] = dict(best_image_structure("5k", 5))
PRESETS: dict[str, dict[str, Any]] = {
    "preset best, cells": BEST | {"spread": 0.0},
    "preset best, windows": BEST | {"spread": BEST_SPREAD["30k"]},
}


class Features:
    """The features of one encoder for the training and held-out images of all tasks."""

    def __init__(self, model: ImageFlyNet, tasks: list[Task]) -> None:
        self.model = model
        began = time.process_time()
        self.tasks = [self._of(task) for task in tasks]
        self.seconds = time.process_time() - began

    def _of(self, task: Task) -> tuple[str, Rows, Tensor, Tensor, Tensor]:
        order = torch.from_numpy(named_generator("held out", task.name).permutation(len(task.train)))
        cut = len(order) // 5
        x, y = task.train.inputs(slice(None)), task.train.labels(slice(None))
        learned, held = x[order[cut:]], x[order[:cut]]
        copies = [self.model.encode_copy(learned, number).half() for number in range(self.model.copies)]
        rows = Rows(torch.cat(copies), y[order[cut:]].repeat(len(copies)))
        return task.name, rows, self.model.encode(held), self.model.encode(held.flip(-1)), y[order[:cut]]


def judge(features: Features, changes: dict[str, Any]) -> dict[str, Any]:
    """Accuracies on the held-out images, plain and with mirror images averaged, and processor seconds."""
    recipe = make_recipe(**(image_recipe() | {"epochs": EPOCHS} | changes))
    head = features.model.head
    plain: list[float] = []
    mirrored: list[float] = []
    began = time.process_time()
    for name, rows, held, other, y in features.tasks:
        (learned,) = train(head, [PreparedTask(name, rows, range(5))], recipe, seed=0)
        for found, x in ((plain, held), (mirrored, (held + other) / 2)):
            found.append(round(100 * accuracy(predict_logits(head, learned.tensors, Rows(x)), y), 2))
    return {
        "accuracies": plain,
        "mean": round(sum(plain) / len(plain), 2),
        "mirrored_accuracies": mirrored,
        "mirrored_mean": round(sum(mirrored) / len(mirrored), 2),
        "parameters": sum(parameter.numel() for parameter in head.parameters()),
        "feature_cpu_seconds": round(features.seconds, 1),
        "training_cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument(
        "--encoder", default="roots, filters of 4 and 8", help="the encoder that recipes are tried with"
    )
    parser.add_argument("--filters", type=int, help="so many filters instead of those of the list")
    parser.add_argument("--only", nargs="+", help="only candidates whose name contains one of these")
    given = parser.parse_args()
    record: dict[str, Any] = {**heading(quick=False, seed=0), "tasks": given.tasks}
    if given.record.exists():
        record = json.loads(given.record.read_text())
    found: dict[str, Any] = record.setdefault("candidates", {})
    tasks = list(make_scenario("split-cifar100", seed=0, tasks=given.tasks))
    wanted: list[tuple[str, dict[str, Any], dict[str, Any]]] = [(name, ENCODERS[name], {}) for name in ENCODERS]
    wanted += [(f"{given.encoder}, {name}", ENCODERS[given.encoder], changes) for name, changes in RECIPES.items()]
    wanted += [(name, settings, {"weight_decay": BEST_DECAY}) for name, settings in PRESETS.items()]
    made: tuple[dict[str, Any], Features] | None = None
    for name, settings, changes in wanted:
        label = name if given.filters is None else f"{name}, {given.filters} filters"
        if label in found or (given.only and not any(part in name for part in given.only)):
            continue
        settings = settings | ({} if given.filters is None else {"filters": given.filters})
        if made is None or made[0] != settings:
            made = settings, Features(ImageFlyNet((3, 32, 32), 5, seed=0, **settings), tasks)
        found[label] = judge(made[1], changes) | {"encoder": settings, "recipe": changes}
        write_whole(given.record, (json.dumps(record, indent=1) + "\n").encode())
        print(label, found[label]["mean"], found[label]["mirrored_mean"], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
