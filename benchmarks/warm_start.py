"""Batches saved by starting a new task from the nearest one: rotations of MNIST learned in steps, cold and warm.

`python benchmarks/warm_start.py` writes results/bench/warm_start.json and docs/images/warm_start.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import torch

import crwn
from crwn.data.dataset import Rows
from crwn.scenarios import Scenario, Task
from crwn.training import Step
from crwn.training.evaluation import accuracy, predict_logits


class Curve:
    """A callback that measures test accuracy every few batches, on some of the test rows."""

    def __init__(self, learner: crwn.Learner, rows: Rows, every: int) -> None:
        self.learner = learner
        self.rows = rows
        self.every = every
        self.points: list[tuple[int, float]] = []

    def measure(self, batches: int, tensors: Mapping[str, torch.Tensor]) -> None:
        logits = predict_logits(self.learner.model, tensors, self.rows)
        self.points.append((batches, 100 * accuracy(logits, self.rows.labels(slice(None)))))

    def __call__(self, step: Step) -> None:
        if step.step % self.every == 0:
            self.measure(step.step, {name: value[0].detach() for name, value in step.tensors.items()})

    def batches_to(self, goal: float) -> int | None:
        """Batches until two measurements in a row reach the goal (one alone may be luck)."""
        for (batches, first), (_, second) in zip(self.points, self.points[1:], strict=False):
            if min(first, second) >= goal:
                return batches
        return None


def learn(learner: crwn.Learner, task: Task, curve: Curve, batches: int, start: str | None) -> None:
    learner.learn(
        task.name,
        task.train,
        list(task.train.labels(slice(None)).tolist()),
        batches=batches,
        recipe="paper",
        start=start,
        progress=False,
        callbacks=[curve],
    )


def compare(scenario: Scenario, *, width: int, batches: int, every: int, rows: int) -> dict[str, list[Curve]]:
    """Learn every task twice: cold, from the model's own start, and warm, from the nearest task learned warm before."""
    model = crwn.NeuroModNet(scenario.input_shape[0], (width, width), scenario.num_classes, seed=0)
    curves: dict[str, list[Curve]] = {"cold": [], "warm": []}
    for name, start in (("cold", None), ("warm", "nearest")):
        learner = crwn.Learner(model)
        for task in scenario:
            curve = Curve(learner, task.test.select(torch.arange(min(rows, len(task.test)))), every)
            learn(learner, task, curve, batches, start)
            curves[name].append(curve)
    return curves


def record(curves: dict[str, list[Curve]], goals: list[float], settings: dict[str, object]) -> dict[str, object]:
    """Medians over all tasks but the first, which has nothing to start from."""
    table = []
    for goal in goals:
        row: dict[str, object] = {"accuracy": goal}
        for name, found in curves.items():
            reached = [curve.batches_to(goal) for curve in found[1:]]
            done = [batches for batches in reached if batches is not None]
            row[name] = statistics.median(done) if done else None
            row[f"{name}_reached"] = f"{len(done)} of {len(reached)}"
        table.append(row)
    last = {name: statistics.mean(curve.points[-1][1] for curve in found[1:]) for name, found in curves.items()}
    means = {
        name: [
            [found[0].points[i][0], round(statistics.mean(curve.points[i][1] for curve in found[1:]), 3)]
            for i in range(len(found[0].points))
        ]
        for name, found in curves.items()
    }
    return {"settings": settings, "median_batches": table, "final_accuracy": last, "mean_curves": means}


def draw(found: dict[str, object], folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 4.0), layout="constrained")
    axes = figure.subplots()
    means = found["mean_curves"]
    assert isinstance(means, dict)
    for (name, points), colour, dash in zip(means.items(), ("#555555", "#0072B2"), ("--", "-"), strict=True):
        label = {"cold": "from the model's own start", "warm": "from the nearest task"}[name]
        axes.plot([p[0] for p in points], [p[1] for p in points], color=colour, linestyle=dash, label=label)
    axes.set_xlabel("batches of 128")
    axes.set_ylabel("test accuracy (%), mean over tasks")
    axes.set_title("A new rotation, 10 degrees from those learned before")
    axes.legend(frameon=False, loc="lower right")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "warm_start.png", dpi=144, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="rotated-mnist")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000, help="test rows for every measurement")
    parser.add_argument("--goals", default="80,85,88,89")
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder of the record")
    parser.add_argument("--pictures", type=Path, default=Path("docs/images"), help="folder of the picture")
    options = parser.parse_args()
    began = time.perf_counter()
    scenario = crwn.make_scenario(options.scenario, tasks=options.tasks)
    curves = compare(scenario, width=options.width, batches=options.batches, every=options.every, rows=options.rows)
    settings = {key: value for key, value in vars(options).items() if key not in ("out", "pictures")}
    found = record(curves, [float(goal) for goal in options.goals.split(",")], settings)
    found["seconds"] = round(time.perf_counter() - began, 1)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "warm_start.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, options.pictures)
    print(json.dumps({key: found[key] for key in ("median_batches", "final_accuracy", "seconds")}))


if __name__ == "__main__":
    main()
