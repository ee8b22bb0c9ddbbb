"""Accuracy against seconds: training by batches, the closed form, and Newton steps after it.

    python benchmarks/exact_curves.py --parts 10d 5k 20d --json results/bench/exact_curves.json
    python benchmarks/exact_curves.py --parts 30d 40d --batches-only --json results/bench/exact_curves.json

Sizes are FlyNets on one rotation of MNIST, 5k is FlyNet on the first three tasks of Split-CIFAR100 (the mean over
them, features computed before). Seconds are those of the process on one thread, without evaluation, which is on test
rows. Parts that the record has already are kept; `--batches-only` leaves out the closed form, whose factor takes a
cube of the features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from write_record import write_record

from crwn.data.dataset import Rows
from crwn.methods.independent import prepared
from crwn.methods.make import make_method
from crwn.scenarios import make_scenario
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.exact import ExactSettings, learn_exact, output_layer
from crwn.training.exact.newton import newton_steps
from crwn.training.features import encoded, encoded_task
from crwn.training.loop import Step, train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

IMAGES = "5k"
IMAGE_TASKS = 3
POINTS = (16, 32, 64, 125, 250, 500, 1000, 2000, 4000)  # batches after which the accuracy is measured
STEPS = (1, 2, 4, 8)  # of Newton
Point = dict[str, float]  # seconds and accuracy, and the batches or steps they are of
Score = Callable[[dict[str, Tensor]], float]


def measure(part: str, *, scenario: str | None, closed_form: bool) -> dict[str, Any]:
    """The points of every way for one size."""
    images = part == IMAGES
    name = scenario or ("split-cifar100" if images else "rotated-mnist")
    tasks = make_scenario(name, tasks=IMAGE_TASKS if images else 2)
    method, _ = make_method("flynet", tasks, size=part, seed=0)
    recipe = method.recipe()
    found: list[dict[str, Any]] = []
    for number in range(IMAGE_TASKS) if images else [1]:
        network, task = encoded_task(method.model, prepared(tasks[number]))
        _, test = encoded(method.model, tasks[number].test)
        score = _scored(network, test, task.classes)
        found.append({"batches": _batches(network, task, recipe, score)})
        if closed_form:
            found[-1] |= _closed_form(network, task, score)
        print(part, tasks[number].name, found[-1], flush=True)
    features = output_layer(method.model).width
    chosen = [tasks[number].name for number in (range(IMAGE_TASKS) if images else [1])]
    rows = len(task.rows)
    return {"scenario": name, "tasks": chosen, "rows": rows, "features": features, **_means(found)}


def _scored(network: nn.Module, test: Rows, classes: int) -> Score:
    labels = test.labels(slice(None))
    return lambda tensors: 100 * accuracy(predict_logits(network, tensors, test, classes=classes), labels)


def _batches(network: nn.Module, task: PreparedTask, recipe: Recipe, score: Score) -> list[Point]:
    """Training by batches: the recipe's own schedule, or where the rate is constant up to the last of `POINTS`."""
    steps = recipe.steps(len(task.rows))
    if recipe.schedule == "constant":
        recipe, steps = recipe.model_copy(update={"batches": POINTS[-1], "epochs": None}), POINTS[-1]
    wanted = {*(point for point in POINTS if point < steps), steps}
    points: list[Point] = []
    began = time.process_time()

    def measured(step: Step) -> None:
        nonlocal began
        if step.step not in wanted:
            return
        paused = time.process_time()
        tensors = {name: value[0].detach().clone() for name, value in step.tensors.items()}
        points.append({"batches": step.step, "seconds": paused - began, "accuracy": score(tensors)})
        began += time.process_time() - paused

    train(network, [task], recipe, seed=0, callbacks=[measured])
    return points


def _closed_form(network: nn.Module, task: PreparedTask, score: Score) -> dict[str, list[Point]]:
    began = time.process_time()
    found = learn_exact(network, task, ExactSettings())
    exact = time.process_time() - began
    tensors = found.learned.tensors
    points: list[Point] = [{"steps": 0, "seconds": exact, "accuracy": score(tensors)}]
    layer = output_layer(network)
    for steps in STEPS:
        began = time.process_time()
        moved = newton_steps(layer, tensors, task.rows, found.statistics, found.solution, steps=steps)
        taken = time.process_time() - began
        points.append({"steps": steps, "seconds": exact + taken, "accuracy": score(moved)})
    return {"exact": points[:1], "newton": points}


def _means(found: Sequence[dict[str, list[Point]]]) -> dict[str, list[Point]]:
    """The mean over tasks of every point."""
    return {
        way: [
            {key: round(fmean(one[key] for one in points), 3) for key in points[0]}
            for points in zip(*(one[way] for one in found), strict=True)
        ]
        for way in found[0]
    }


def exponents(parts: dict[str, Any]) -> list[float]:
    """How the seconds of the closed form grow with the features, from every size of MNIST to the next."""
    sizes = sorted(
        (one["features"], one["exact"][0]["seconds"])
        for name, one in parts.items()
        if name != IMAGES and "exact" in one
    )
    return [round(log(t / s) / log(w / v), 2) for (v, s), (w, t) in pairwise(sizes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["10d", IMAGES, "20d"], help="sizes")
    parser.add_argument("--batches-only", action="store_true", help="without the closed form")
    parser.add_argument("--scenario", help="instead of the usual one")
    parser.add_argument("--json", type=Path, help="write the record here, after every part")
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Any] = {}
    if given.json is not None and given.json.exists():
        parts = json.loads(given.json.read_text())["parts"]
    for part in given.parts:
        if part not in parts:
            parts[part] = measure(part, scenario=given.scenario, closed_form=not given.batches_only)
            write_record({"parts": parts, "exponents": exponents(parts)}, given.json)


if __name__ == "__main__":
    main()
