"""Which features of images are worth their parameters: linear decoders in closed form, Split-CIFAR100's first tasks.

    python benchmarks/image_features.py --record results/bench/image_features.json

A full linear decoder depends on features through their products alone, and products of features side by side add up:
one matrix of products for each bank of filters is enough to compare all combinations of banks. Every candidate is
judged by ridge regression on the training images of tasks 0 to 2, five folds of 500 images each, with the best of a
short list of ridges; the test images are never read. Features are averages over an image and its mirror image.
"random units" replaces the products by those of infinitely many random ReLU units on the features: what a frozen
hidden layer between features and decoder would add. Finished candidates are in the record; the same command continues.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.layers.weights import named_generator
from crwn.models.image_encoder import ImageEncoder
from crwn.scenarios import Task, make_scenario

FILTERS, COLOURS = 136, 48  # of a bank
FOLDS, CLASSES, BLOCK = 5, 5, 500
RIDGES = (0.01, 0.03, 0.1)
COLOUR_SHARE = 0.2  # of the products of filters that those of colours add
CANDIDATES: dict[str, tuple[tuple[int, ...], bool, bool]] = {  # sides of the banks, colours, random units
    "filters of 6": ((6,), False, False),
    "filters of 4 and 8": ((4, 8), False, False),
    "filters of 3 and 8": ((3, 8), False, False),
    "filters of 3, 4 and 8": ((3, 4, 8), False, False),
    "filters of 4, 8 and 12": ((4, 8, 12), False, False),
    "filters of 4 and 8, colours": ((4, 8), True, False),
    "filters of 3 and 8, colours": ((3, 8), True, False),
    "filters of 3, 4 and 8, colours": ((3, 4, 8), True, False),
    "filters of 3, 4, 6 and 8, colours": ((3, 4, 6, 8), True, False),
    "filters of 3, 4 and 8, colours, random units": ((3, 4, 8), True, True),
}


def products(tasks: Sequence[Task], side: int | None) -> list[Tensor]:
    """Products of the features of all training images of each task, for one bank; side None is the colours."""
    count = FILTERS if side is not None else 1
    colours = 0 if side is not None else COLOURS
    encoder = ImageEncoder((3, 32, 32), filters=count, sides=(side or 4,), colours=colours, seed=0)
    first = 0 if side is not None else 2 * encoder.grid**2  # without the one filter that an encoder must have
    found = []
    for task in tasks:
        rows = task.train.without_augmentation()
        parts = [(encoder.encode(x) + encoder.encode(x.flip(-1))) / 2 for x in rows.batches(BLOCK)]
        h = torch.cat(parts)[:, first:]
        gram = h @ h.T
        found.append(gram / gram.diagonal().mean())
    return found


def random_units(gram: Tensor) -> Tensor:
    """Products of random ReLU units on features with these products (the arc-cosine kernel of order 1)."""
    length = gram.diagonal().sqrt()
    both = length[:, None] * length
    cosine = (gram / both).clamp(-1, 1)
    angle = torch.acos(cosine)
    return (torch.sin(angle) + (math.pi - angle) * cosine) / math.pi * both


def judge(grams: Sequence[Tensor], tasks: Sequence[Task]) -> dict[str, float]:
    """Mean accuracy over tasks and folds, by ridge."""
    found: dict[str, float] = {}
    for gram, task in zip(grams, tasks, strict=True):
        gram = gram / gram.diagonal().mean()
        y = task.train.labels(slice(None))
        wanted = F.one_hot(y, CLASSES).float() - 1 / CLASSES
        order = torch.from_numpy(named_generator("folds", task.name).permutation(len(y)))
        for held in order.chunk(FOLDS):
            kept = torch.ones(len(y), dtype=torch.bool)
            kept[held] = False
            learned = kept.nonzero()[:, 0]
            inner, outer = gram[learned][:, learned], gram[held][:, learned]
            for ridge in RIDGES:
                factor = torch.linalg.cholesky(inner + ridge * torch.eye(len(learned)))
                answers = outer @ torch.cholesky_solve(wanted[learned], factor)
                right = float((answers.argmax(dim=1) == y[held]).float().mean())
                found[str(ridge)] = found.get(str(ridge), 0.0) + 100 * right / (FOLDS * len(tasks))
    return {ridge: round(value, 2) for ridge, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--record", type=Path, required=True)
    given = parser.parse_args()
    record: dict[str, Any] = {**heading(quick=False, seed=0), "tasks": given.tasks, "candidates": {}}
    if given.record.exists():
        record = json.loads(given.record.read_text())
    tasks = list(make_scenario("split-cifar100", seed=0, tasks=given.tasks))
    made: dict[int | None, list[Tensor]] = {}
    for name, (sides, colours, units) in CANDIDATES.items():
        if name in record["candidates"]:
            continue
        began = time.process_time()
        for bank in (*sides, *([None] if colours else [])):
            if bank not in made:
                made[bank] = products(tasks, bank)
        grams = []
        for at in range(len(tasks)):
            gram = sum((made[side][at] for side in sides), torch.zeros(())) / len(sides)
            gram = gram + COLOUR_SHARE * made[None][at] if colours else gram
            grams.append(random_units(gram) if units else gram)
        accuracies = judge(grams, tasks)
        filters = FILTERS * len(sides)
        record["candidates"][name] = {
            "accuracies_by_ridge": accuracies,
            "mean": max(accuracies.values()),
            "filters": filters,
            "colours": COLOURS * colours,
            "features": 2 * 9 * (filters + COLOURS * colours),
            "cpu_seconds": round(time.process_time() - began, 1),
        }
        write_whole(given.record, (json.dumps(record, indent=1) + "\n").encode())
        print(name, accuracies, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
