"""How NeuroModNet should learn images in few epochs: networks and recipes, on Split-CIFAR100's first tasks.

    python benchmarks/resnet_search.py --epochs 10 --record results/bench/resnet_search.json

Every candidate learns from four fifths of a task's training images and is evaluated on the rest: as it is, with the
logits of image and mirror image averaged, and with batch-norm statistics of all training images in the place of running
ones; the test images are never read. A candidate differs in what its name says from the one in `BASES` that its name
begins with. Finished candidates are in the record; the same command continues where it was stopped, and `--only` tries
some with another number of epochs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.data.dataset import Rows
from crwn.experiments.environment import commit
from crwn.layers import context_tensors, learned_parameters
from crwn.layers.conv import TaskBatchNorm2d
from crwn.layers.weights import named_generator
from crwn.models import Network, NeuroModResNet, WhitenedResNet
from crwn.models.functional import replica
from crwn.scenarios import Task, make_scenario
from crwn.scenarios.augment import crop_and_flip
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.loop import train
from crwn.training.recipe import make_recipe
from crwn.training.task import PreparedTask

PAPER: dict[str, Any] = {"optimizer": "adam", "schedule": "cosine", "rate": 0.1, "batch_size": 128, "compile": True}
SMALL: dict[str, Any] = PAPER | {"batch_size": 50}
ONES: dict[str, Any] = {"start": "ones"}
STEM: dict[str, Any] = ONES | {
    "filters": 160,
    "sides": (4, 8),
    "grid": 3,
    "channels": 64,
    "blocks": 1,
    "last": 256,
    "head_scale": 0.2,
    "mirror": False,
}
FAST: dict[str, Any] = SMALL | {"rate": 0.3}
BASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paper": ({}, PAPER),
    "stem": (STEM, SMALL),
    "fast": (STEM, FAST),
}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stem, head scale 0.5": ({"head_scale": 0.5}, {}),
    "stem, rate 0.3": ({}, {"rate": 0.3}),
    "fast, one cycle": ({}, {"schedule": "onecycle"}),
    "fast, no shortcut": ({"grid": 0}, {}),
    "fast, shortcut alone": ({"blocks": 0, "filters": 272}, {}),
    "stem": ({}, {}),
    "fast, label smoothing 0.1": ({}, {"label_smoothing": 0.1}),
    "fast, rate 1": ({}, {"rate": 1.0}),
    "fast, batches of 25": ({}, {"batch_size": 25}),
    "fast, crop of 2 pixels": ({}, {"pad": 2}),
    "paper": ({}, {}),
    "paper, batches of 50": ({}, {"batch_size": 50}),
}


def split(task: Task, pad: int) -> tuple[Rows, Rows]:
    """Four fifths of the training images, augmented, and the others, by the same draw as in image_search.py."""
    order = torch.from_numpy(named_generator("held out", task.name).permutation(len(task.train)))
    cut = len(order) // 5
    learned = replace(task.train.select(order[cut:]), augment=partial(crop_and_flip, pad=pad))
    return learned, task.train.select(order[:cut]).without_augmentation()


def with_statistics(model: nn.Module, tensors: dict[str, Tensor], rows: Rows) -> dict[str, Tensor]:
    """The context with batch-norm statistics of all these images, as they are."""
    network = replica(model).train()
    for module in network.modules():
        if isinstance(module, TaskBatchNorm2d):
            module.momentum = 1.0
    changed = {name: value.clone() for name, value in tensors.items()}
    with torch.no_grad():
        functional_call(network, changed, (rows.without_augmentation().inputs(slice(None)),))
    return changed


def judge(name: str, tasks: list[Task], epochs: int) -> dict[str, Any]:
    """Accuracies on the held-out images and on the training images, and processor seconds of training."""
    base = BASES[name.split(",")[0]]
    network, recipe = (own | change for own, change in zip(base, CHANGES[name], strict=True))
    pad = recipe.pop("pad", 4)
    kind: type[Network] = NeuroModResNet if name.startswith("paper") else WhitenedResNet
    model = kind(classes=5, seed=0, **network)
    found: dict[str, list[float]] = {"accuracies": [], "mirrored": [], "statistics": [], "training": []}
    seconds: list[float] = []
    for task in tasks:
        learned, held = split(task, pad)
        began = time.process_time()
        prepared = PreparedTask(task.name, learned, range(5))
        (result,) = train(model, [prepared], make_recipe(epochs=epochs, **recipe), seed=0)
        seconds.append(round(time.process_time() - began, 1))
        y = held.labels(slice(None))
        plain = predict_logits(model, result.tensors, held)
        other = predict_logits(model, result.tensors, Rows(held.inputs(slice(None)).flip(-1)))
        whole = predict_logits(model, with_statistics(model, result.tensors, learned), held)
        own = predict_logits(model, result.tensors, learned.without_augmentation())
        for key, logits, labels in (
            ("accuracies", plain, y),
            ("mirrored", plain + other, y),
            ("statistics", whole, y),
            ("training", own, learned.labels(slice(None))),
        ):
            found[key].append(round(100 * accuracy(logits, labels), 2))
    means = {f"mean_{key}": round(sum(values) / len(values), 2) for key, values in found.items()}
    statistics = sum(value.numel() for value in context_tensors(model).values()) - learned_parameters(model)
    return {
        "epochs": epochs,
        "network": model.config,
        "recipe": recipe | {"pad": pad},
        **found,
        **means,
        "parameters": learned_parameters(model),
        "statistics_kept": statistics,
        "cpu_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help="only candidates with these names")
    given = parser.parse_args()
    record: dict[str, Any] = {**heading(quick=False, seed=0), "tasks": given.tasks}
    if given.record.exists():
        record = json.loads(given.record.read_text())
    found: dict[str, Any] = record.setdefault("candidates", {})
    tasks = list(make_scenario("split-cifar100", seed=0, tasks=given.tasks))
    for name in given.only or CHANGES:
        label = f"{name} ({given.epochs} epochs)"
        if label in found:
            continue
        found[label] = judge(name, tasks, given.epochs) | {"commit": commit()}
        write_whole(given.record, (json.dumps(record, indent=1) + "\n").encode())
        print(label, {k: v for k, v in found[label].items() if "mean" in k}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
