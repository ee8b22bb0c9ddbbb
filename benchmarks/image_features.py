"""Which features of images are worth their parameters: linear decoders in closed form, Split-CIFAR100's first tasks.

    python benchmarks/image_features.py --record results/bench/image_features.json

A full linear decoder depends on features through their products alone, and products of features side by side add up:
one matrix of products for each bank of filters is enough to compare all combinations of banks. Every candidate is
judged by ridge regression on the training images of tasks 0 to 2, five folds of 500 images each, with the best of a
short list of ridges; the test images are never read. Features are averages over an image and its mirror image.
"windows" are Gaussian ones of the spread of `recipe=best` in the place of cells. "random units" replaces the products
by those of infinitely many random ReLU units on the features: what a frozen hidden layer between features and decoder
would add. The last candidates are whole encoders of `recipe=best` as it is and with one thing changed. Finished
candidates are in the record; the same command continues.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.layers.weights import named_generator
from crwn.models.image_encoder import ImageEncoder
from crwn.models.image_flynet import BEST_SPREAD, best_image_structure, filters_for
from crwn.scenarios import Task, make_scenario

FILTERS, COLOURS = 136, 48  # of a bank
FOLDS, CLASSES, BLOCK = 5, 5, 500
RIDGES = (0.01, 0.03, 0.1)
COLOUR_SHARE = 0.2  # of the products of filters that those of colours add
SPREAD = BEST_SPREAD["30k"]


class Candidate(NamedTuple):
    """Banks of filters side by side, and what is changed about them."""

    sides: tuple[int, ...]
    colours: bool = False
    units: bool = False
    spread: float = 0.0


CANDIDATES = {
    "filters of 4 and 8": Candidate((4, 8)),
    "filters of 3 and 8": Candidate((3, 8)),
    "filters of 3, 4 and 8": Candidate((3, 4, 8)),
    "filters of 4 and 8, colours": Candidate((4, 8), colours=True),
    "filters of 3 and 8, colours": Candidate((3, 8), colours=True),
    "filters of 3, 4 and 8, colours": Candidate((3, 4, 8), colours=True),
    "filters of 3, 4 and 8, colours, random units": Candidate((3, 4, 8), colours=True, units=True),
    "filters of 3, 4 and 8, colours, windows": Candidate((3, 4, 8), colours=True, spread=SPREAD),
    "filters of 3, 4 and 8, colours, windows, random units": Candidate((3, 4, 8), True, True, SPREAD),
}


def encoders() -> dict[str, dict[str, Any]]:
    """Settings of whole encoders, by name."""
    best: dict[str, Any] = dict(best_image_structure("30k", CLASSES))
    del best["gains"], best["symmetric"]
    filters = filters_for("30k", gains=CLASSES - 1) - best["colours"]
    one_layer = best | {"second": 0, "filters": filters}
    smaller: dict[str, dict[str, Any]] = {}
    for size in ("10k", "20k"):
        plain: dict[str, Any] = dict(best_image_structure(size, CLASSES))
        del plain["gains"], plain["symmetric"]
        smaller |= {f"{size}, cells": plain | {"spread": 0.0}, f"{size}, windows": plain | {"spread": SPREAD}}
    return {
        "30k, one layer, cells": one_layer | {"spread": 0.0},
        "30k, one layer": one_layer,
        "30k": best,
        **smaller,
    }


def products(tasks: Sequence[Task], side: int | None, spread: float) -> list[Tensor]:
    """Products of the features of all training images of each task, for one bank; side None is the colours."""
    count = FILTERS if side is not None else 1
    colours = 0 if side is not None else COLOURS
    encoder = ImageEncoder((3, 32, 32), filters=count, sides=(side or 4,), colours=colours, spread=spread, seed=0)
    return products_of(encoder, tasks, first=0 if side is not None else 2 * encoder.grid**2)


def products_of(encoder: ImageEncoder, tasks: Sequence[Task], *, first: int = 0) -> list[Tensor]:
    """Products of the features of all training images of each task, without the first ones."""
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
    made: dict[tuple[int | None, float], list[Tensor]] = {}

    def keep(name: str, grams: Sequence[Tensor], began: float, **facts: object) -> None:
        accuracies = judge(grams, tasks)
        record["candidates"][name] = {
            "accuracies_by_ridge": accuracies,
            "mean": max(accuracies.values()),
            **facts,
            "cpu_seconds": round(time.process_time() - began, 1),
        }
        write_whole(given.record, (json.dumps(record, indent=1) + "\n").encode())
        print(name, accuracies, file=sys.stderr, flush=True)

    for name, (sides, colours, units, spread) in CANDIDATES.items():
        if name in record["candidates"]:
            continue
        began = time.process_time()
        for bank in (*sides, *([None] if colours else [])):
            if (bank, spread) not in made:
                made[bank, spread] = products(tasks, bank, spread)
        grams = []
        for at in range(len(tasks)):
            gram = sum((made[side, spread][at] for side in sides), torch.zeros(())) / len(sides)
            gram = gram + COLOUR_SHARE * made[None, spread][at] if colours else gram
            grams.append(random_units(gram) if units else gram)
        filters = FILTERS * len(sides)
        features = 2 * 9 * (filters + COLOURS * colours)
        keep(name, grams, began, filters=filters, colours=COLOURS * colours, features=features)
    for name, settings in encoders().items():
        if name not in record["candidates"]:
            began = time.process_time()
            encoder = ImageEncoder((3, 32, 32), seed=0, **settings)
            keep(name, products_of(encoder, tasks), began, encoder=settings, features=encoder.features)


if __name__ == "__main__":
    main()
