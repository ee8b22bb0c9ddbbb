"""Search for the best recipe at a number of parameters per task: Rotation-MNIST tasks 0-2, held-out training images.

    python benchmarks/recipe_search.py --params 8979 --record results/bench/recipe_search.jsonl

The test set is never read. Every candidate learns the three tasks at once in 1,000 batches of 128 and is evaluated
on 10,000 training images that it did not learn from. One axis after another is tried, and the best option kept. Every
finished candidate is a line of the record; the same command continues where it was stopped. `--show` prints the record.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from recipe_candidate import Candidate
from torch.func import functional_call, vmap

from crwn.data.dataset import Rows, visiting_order
from crwn.layers.weights import named_generator
from crwn.scenarios import make_scenario

STEPS, BATCH, TASKS = 1000, 128, 3
HELD_OUT = 10_000

BASE: dict[str, Any] = {
    "hidden": "2",  # layers and their widths, see `widths`
    "first": "hadamard",  # frozen weights of the first layer: gaussian, hadamard, hadamard2, patches
    "patch": [5, 28],  # smallest and largest side of a patch
    "rest": "hadamard",  # of the other hidden layers
    "activation": "relu",
    "pool": 1,  # maxout: the largest of this many units is one feature
    "norm": "none",  # of every row before it meets v, without parameters: none, centre, layer
    "tie": 1,  # this many units share an entry of v, with random signs
    "start_scale": 1.0,
    "optimizer": "rmsprop",
    "rate": 0.02,
    "beta2": 0.99,
    "schedule": "cosine",
    "alpha_rate": 1.0,  # times the rate
    "first_rate": 1.0,  # of the first layer's v, times the rate
    "smoothing": 0.0,
    "average": 0.0,  # share of the last steps whose contexts are averaged
    "seed": 0,
}

# Tried in this order; an option is a change of one or several settings.
AXES: list[list[dict[str, Any]]] = [
    [{"first": "patches", "patch": [5, 28]}, {"first": "patches", "patch": [7, 14]}, {"first": "hadamard2"}],
    [{"norm": "layer"}, {"norm": "centre"}],
    [
        {"optimizer": "adam", "rate": 0.03, "schedule": "onecycle"},
        {"optimizer": "adam", "rate": 0.01, "schedule": "onecycle"},
        {"rate": 0.01},
        {"rate": 0.04},
    ],
    [{"average": 0.25}, {"average": 0.1}],
    [{"activation": "gelu"}, {"activation": "leaky"}, {"activation": "abs"}, {"activation": "cos"}],
    [{"pool": 2}, {"pool": 4}],
    [{"hidden": "3"}, {"hidden": "wide-last"}, {"hidden": "wide-first"}, {"hidden": "1"}],
    [{"patch": [3, 10]}, {"patch": [6, 20]}, {"patch": [10, 28]}],
    [{"start_scale": 3.0}, {"start_scale": 0.5}],
    [{"smoothing": 0.05}, {"smoothing": 0.1}],
    [{"alpha_rate": 0.3}, {"alpha_rate": 0.0}, {"first_rate": 0.3}, {"first_rate": 3.0}],
    [{"rest": "hadamard2"}],
    [{"tie": 2}],
    [{"beta2": 0.95}, {"beta2": 0.999}],
]


def rate_at(config: dict[str, Any], step: int) -> float:
    """Return the learning rate of a step."""
    rate: float = config["rate"]
    if config["schedule"] == "constant":
        return rate
    warm = 0 if config["schedule"] == "cosine" else STEPS // 5
    if step < warm:
        return rate * (0.04 + 0.96 * step / warm)
    return rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm)))


def tasks_of(seed: int) -> tuple[list[Rows], list[Rows]]:
    """Return training and held-out rows of the three tasks; the held-out images are the same for all candidates."""
    scenario = make_scenario("rotated-mnist", seed=seed, tasks=TASKS)
    order = torch.from_numpy(named_generator("recipe search").permutation(len(scenario[0].train)))
    return (
        [task.train.select(order[HELD_OUT:]) for task in scenario],
        [task.train.select(order[:HELD_OUT]) for task in scenario],
    )


def evaluate(config: dict[str, Any], params: int, *, steps: int = STEPS) -> dict[str, Any]:
    """Learn the three tasks with this configuration, and return the accuracy on the held-out images, in percent."""
    train, held = tasks_of(config["seed"])
    model = Candidate(config, params)
    began = time.perf_counter()
    stacked = {name: torch.stack([value.detach()] * TASKS).requires_grad_() for name, value in model.named_parameters()}
    factors = {name: config["alpha_rate"] if name.startswith("alpha") else 1.0 for name in stacked}
    factors["v0"] = config["first_rate"]
    groups: list[dict[str, Any]] = [{"params": [stacked[name]], "factor": factors[name]} for name in stacked]
    if config["optimizer"] == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(groups, lr=1.0, betas=(0.9, config["beta2"]))
    else:
        optimizer = torch.optim.RMSprop(groups, lr=1.0, alpha=config["beta2"])
    forward = vmap(lambda context, x: functional_call(model, context, (x,)))
    orders = [visiting_order(len(rows), BATCH, steps, seed=config["seed"], name=f"{i}") for i, rows in enumerate(train)]
    first_averaged = steps - round(steps * config["average"])
    sums = {name: torch.zeros_like(value) for name, value in stacked.items()}
    for step, positions in enumerate(zip(*orders, strict=True)):
        x = torch.stack([rows.inputs(at) for rows, at in zip(train, positions, strict=True)])
        y = torch.stack([rows.labels(at) for rows, at in zip(train, positions, strict=True)])
        for group in optimizer.param_groups:
            group["lr"] = rate_at(config, step) * group["factor"]
        logits = forward(stacked, x)
        losses = F.cross_entropy(
            logits.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=config["smoothing"]
        )
        optimizer.zero_grad(set_to_none=True)
        losses.view(y.shape).mean(dim=1).sum().backward()
        optimizer.step()
        if step >= first_averaged:
            for name, value in stacked.items():
                sums[name] += value.detach()
    if config["average"]:
        stacked = {name: value / (steps - first_averaged) for name, value in sums.items()}
    seconds = (time.perf_counter() - began) / TASKS
    accuracies = []
    with torch.no_grad():
        for i, rows in enumerate(held):
            context = {name: value[i] for name, value in stacked.items()}
            logits = torch.cat([functional_call(model, context, (x,)) for x in rows.batches(1000)])
            accuracies.append(100.0 * float((logits.argmax(dim=1) == rows.labels(slice(None))).float().mean()))
    return {"accuracy": sum(accuracies) / TASKS, "tasks": accuracies, "learned": model.learned, "seconds": seconds}


class Record:
    """Finished candidates, a JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        self.known = {self._key(line["config"], line["numbers"]): line for line in self.lines}

    @staticmethod
    def _key(config: dict[str, Any], params: int) -> str:
        return json.dumps([config, params], sort_keys=True)

    def result(self, config: dict[str, Any], params: int) -> dict[str, Any]:
        """Return what this candidate reached, measured now where the record does not have it."""
        key = self._key(config, params)
        if key not in self.known:
            changed = {name: value for name, value in config.items() if BASE[name] != value}
            line = {"numbers": params, "changed": changed, "config": config, **evaluate(config, params)}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.known[key] = line
            self.lines.append(line)
            print(f"{params:6} {line['accuracy']:.2f} {line['seconds']:6.1f} s/task {changed}", flush=True)
        return self.known[key]


def options(axis: list[dict[str, Any]], best: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The axis' options applied to the best so far; those about patches only where there are patches."""
    for change in axis:
        if "patch" in change and "first" not in change and best["first"] != "patches":
            continue
        if best | change != best:
            yield best | change


def search(
    record: Record, params: int, start: dict[str, Any], axes: list[list[dict[str, Any]]], until: float
) -> dict[str, Any]:
    """One axis after another from `start`: the best configuration found."""
    best, reached = start, record.result(start, params)["accuracy"]
    for axis in axes:
        for config in options(axis, best):
            if time.time() > until:
                return best
            found = record.result(config, params)
            if found["accuracy"] > reached + 0.02:
                best, reached = config, found["accuracy"]
    print(f"{params:6} best: {reached:.2f} with {best}", flush=True)
    return best


def show(record: Record) -> None:
    """The record as a table, best first."""
    for params in sorted({line["numbers"] for line in record.lines}):
        print(f"\n{params} parameters per task")
        for line in sorted((one for one in record.lines if one["numbers"] == params), key=lambda one: -one["accuracy"]):
            print(f"  {line['accuracy']:.2f}  {line['seconds']:6.1f} s/task  {line['changed']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", "--numbers", type=int, nargs="+", default=[8979, 2835, 1299, 33555])
    parser.add_argument("--record", type=Path, default=Path("results/bench/recipe_search.jsonl"))
    parser.add_argument("--start", default="{}", help="settings to start from, as JSON")
    parser.add_argument("--try", dest="tries", action="append", default=[], help="only this change, as JSON")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    record = Record(chosen.record)
    if chosen.show:
        show(record)
        return
    until = time.time() + 60 * chosen.minutes
    start = BASE | json.loads(chosen.start)
    axes = [[json.loads(change)] for change in chosen.tries] or AXES
    for params in chosen.params:
        if chosen.tries:
            for (change,) in axes:
                record.result(start | change, params)
        else:
            # What is best at one size is the best start at the next.
            start = search(record, params, start, axes, until)


if __name__ == "__main__":
    main()
