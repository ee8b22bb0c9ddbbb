"""Where the seconds of a closed form go, and what solving the same system from the rows by conjugate gradients costs.

    python benchmarks/exact_parts.py --json results/bench/exact_parts.json

FlyNet 10d on one task of Rotated-MNIST, seconds of the process on one thread: encoding all rows, the sums over rows,
one Cholesky factor, one pass of conjugate gradients over the rows (features kept rounded to 8 bits), and the test
accuracy and residual after some passes, preconditioned by the diagonal. Training by batches encodes its rows too:
encoding alone bounds how much faster a method that sees every row can be.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from write_record import write_record

from crwn.layers import context_tensors
from crwn.methods.independent import prepared
from crwn.methods.make import make_method
from crwn.scenarios import make_scenario
from crwn.training.exact.accumulate import ENCODED, add_products, round_rows
from crwn.training.exact.output_layer import output_layer
from crwn.training.exact.solve import NormalEquations
from crwn.training.exact.statistics import Statistics
from crwn.training.loop import train

RIDGE = 1e-3
PASS_ROWS = 2000
CHECKED = (1, 2, 4, 8, 16, 24)


def measure(task_name: str = "rotated-mnist") -> dict[str, Any]:
    """Seconds of every part, and the accuracy of conjugate gradients by passes."""
    scenario = make_scenario(task_name, tasks=2)
    method, _ = make_method("flynet", scenario, size="10d", seed=0)
    task, test = prepared(scenario[1]), scenario[1].test
    layer, tensors = output_layer(method.model), context_tensors(method.model)
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        found = work()
        seconds[name] = round(time.process_time() - began, 2)
        print(name, seconds[name], flush=True)
        return found

    timed("batches", lambda: train(method.model, [task], method.recipe(), seed=0))
    count, width = len(task.rows), layer.width
    q, step = torch.empty(count, width, dtype=torch.int8), torch.empty(count, 1)

    def encode() -> None:
        for start in range(0, count, ENCODED):
            at = slice(start, start + ENCODED)
            q[at], step[at, 0] = round_rows(layer.features(tensors, task.rows.inputs(at)).float())

    timed("encoding", encode)
    labels = task.rows.labels(slice(None))
    centred = torch.from_numpy(layer.frozen[: task.classes]).float()
    centred = centred - centred.mean(dim=0)
    products = torch.zeros(width, task.classes)
    squares = torch.zeros(width)
    for start in range(0, count, PASS_ROWS):
        h = q[start : start + PASS_ROWS].float() * step[start : start + PASS_ROWS]
        products += h.T @ torch.eye(task.classes)[labels[start : start + PASS_ROWS]]
        squares += h.square().sum(dim=0)
    right = (centred * products.T).sum(dim=0)
    diagonal = (centred**2).sum(dim=0) * squares
    ridge = RIDGE * diagonal.mean()
    x_test = torch.cat(
        [layer.features(tensors, test.inputs(slice(at, at + ENCODED))) for at in range(0, len(test), ENCODED)]
    )

    def times(v: torch.Tensor) -> torch.Tensor:
        turned, found = (centred * v).T.contiguous(), torch.zeros_like(v)
        for start in range(0, count, PASS_ROWS):
            h = q[start : start + PASS_ROWS].float().mul_(step[start : start + PASS_ROWS])
            found += (centred * ((h @ turned).T @ h)).sum(dim=0)
        return found + ridge * v

    passes = _conjugate_gradients(
        times, right, diagonal + ridge, lambda g: _accuracy(x_test, centred * g, test.labels(slice(None)))
    )
    seconds["one pass"] = passes["seconds_per_pass"]
    gram = np.zeros((width, width))

    def sums() -> None:
        for value in step.unique().tolist():
            add_products(gram, q[(step[:, 0] == value).nonzero()[:, 0]].T.contiguous(), value * value)

    timed("sums", sums)
    classes = tuple(range(task.classes))
    counts = np.bincount(labels.numpy(), minlength=len(classes))
    statistics = Statistics(
        "m", "", classes, (0.0, 1.0), "int8", gram, products.double().numpy(), counts.astype(np.float64), counts
    )
    system = NormalEquations(statistics, layer.frozen)
    gain, _ = timed("solving with one ridge", lambda: system.solve(RIDGE))
    exact = _accuracy(x_test, centred * torch.from_numpy(gain).float(), test.labels(slice(None)))
    return {
        "rows": count,
        "features": width,
        "seconds": seconds,
        "most_ratio": round(seconds["batches"] / seconds["encoding"], 2),
        "conjugate_gradients": passes["after"],
        "accuracy_of_the_solution": exact,
    }


def _conjugate_gradients(times: Any, right: Any, diagonal: Any, score: Any) -> dict[str, Any]:
    g = torch.zeros_like(right)
    rest = right.clone()
    z = rest / diagonal
    direction, energy, after = z.clone(), float(rest @ z), []
    began = time.process_time()
    spent = 0.0
    for done in range(1, max(CHECKED) + 1):
        began = time.process_time()
        image = times(direction)
        size = energy / float(direction @ image)
        g += size * direction
        rest -= size * image
        z = rest / diagonal
        energy, before = float(rest @ z), energy
        direction = z + energy / before * direction
        spent += time.process_time() - began
        if done in CHECKED:
            residual = float(rest.norm() / right.norm())
            after.append({"passes": done, "residual": float(f"{residual:.3g}"), "accuracy": score(g)})
            print(after[-1], flush=True)
    return {"after": after, "seconds_per_pass": round(spent / max(CHECKED), 2)}


def _accuracy(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> float:
    return round(100 * float(((x @ weight.T).argmax(dim=1) == labels).float().mean()), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="rotated-mnist")
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    write_record(measure(given.scenario), given.json)


if __name__ == "__main__":
    main()
