"""Where the seconds of a closed form go, beside training by batches, and what solving without products would cost.

    python benchmarks/exact_parts.py --json results/bench/exact_parts.json

FlyNet 10d on one task of Rotated-MNIST, seconds of the process on one thread, measured in turns: 1,000 batches; the
features of all rows; the statistics (features, rounding to 8 bits, sums) and of these the products alone; the factor
and the solution for one ridge; one pass of conjugate gradients over features kept in 8 bits. Then the test accuracy
of conjugate gradients, preconditioned by the diagonal, after some passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from write_record import write_record

from crwn.bench.measure import alternately
from crwn.layers import context_tensors
from crwn.methods.independent import prepared
from crwn.methods.make import make_method
from crwn.scenarios import make_scenario
from crwn.training.exact.accumulate import ENCODED, accumulate, add_products, block_rows, round_rows
from crwn.training.exact.output_layer import OutputLayer, output_layer
from crwn.training.exact.solve import NormalEquations
from crwn.training.exact.statistics import Statistics
from crwn.training.loop import train
from crwn.training.task import PreparedTask

RIDGE = 1e-3
PASS_ROWS = 250  # 8 MB of features
CHECKED = (1, 2, 4, 8, 16, 24)
ROUNDS = 3


class Passes:
    """The system `(sum_c C_c C_c^T ⊙ H^T H + ridge) g = right` from rows of 8-bit features, without their products."""

    def __init__(self, layer: OutputLayer, tensors: Mapping[str, Tensor], task: PreparedTask) -> None:
        self.q = torch.empty(len(task.rows), layer.width, dtype=torch.int8)
        self.step = torch.empty(len(task.rows), 1)
        self.centred = torch.from_numpy(layer.frozen[: task.classes]).float()
        self.centred -= self.centred.mean(dim=0)
        labels = task.rows.labels(slice(None))
        products, squares = torch.zeros(layer.width, task.classes), torch.zeros(layer.width)
        for start in range(0, len(task.rows), ENCODED):
            at = slice(start, start + ENCODED)
            self.q[at], self.step[at, 0] = round_rows(layer.features(tensors, task.rows.inputs(at)).float())
            h = self.q[at].float() * self.step[at]
            products += h.T @ torch.eye(task.classes)[labels[at]]
            squares += h.square().sum(dim=0)
        self.right = (self.centred * products.T).sum(dim=0)
        diagonal = (self.centred**2).sum(dim=0) * squares
        self.ridge = RIDGE * diagonal.mean()
        self.diagonal = diagonal + self.ridge

    def times(self, g: Tensor) -> Tensor:
        """One pass: the matrix of the system times a vector."""
        turned, found = (self.centred * g).T.contiguous(), torch.zeros_like(g)
        for start in range(0, len(self.q), PASS_ROWS):
            at = slice(start, start + PASS_ROWS)
            h = self.q[at].float().mul_(self.step[at])
            found += (self.centred * ((h @ turned).T @ h)).sum(dim=0)
        return found + self.ridge * g

    def conjugate_gradients(self, score: Callable[[Tensor], float]) -> list[dict[str, float]]:
        """Residual and accuracy after some passes."""
        g, rest = torch.zeros_like(self.right), self.right.clone()
        z = rest / self.diagonal
        direction, energy, after = z.clone(), float(rest @ z), []
        for done in range(1, max(CHECKED) + 1):
            image = self.times(direction)
            size = energy / float(direction @ image)
            g += size * direction
            rest -= size * image
            z = rest / self.diagonal
            energy, before = float(rest @ z), energy
            direction = z + energy / before * direction
            if done in CHECKED:
                residual = float(f"{float(rest.norm() / self.right.norm()):.3g}")
                after.append({"passes": done, "residual": residual, "accuracy": score(g)})
                print(after[-1], flush=True)
        return after


def measure(scenario_name: str, rounds: int) -> dict[str, Any]:
    """Seconds of every part, the ratios that follow, and the accuracy of conjugate gradients by passes."""
    scenario = make_scenario(scenario_name, tasks=2)
    method, _ = make_method("flynet", scenario, size="10d", seed=0)
    task, test = prepared(scenario[1]), scenario[1].test
    layer, tensors = output_layer(method.model), context_tensors(method.model)
    empty = Statistics.empty(layer.width, tuple(range(task.classes)), model="", precision="int8")
    passes = Passes(layer, tensors, task)
    whole = accumulate(layer, tensors, task.rows, empty)
    system = NormalEquations(whole, layer.frozen)

    def encode() -> None:
        for start in range(0, len(task.rows), ENCODED):
            layer.features(tensors, task.rows.inputs(slice(start, start + ENCODED)))

    def products() -> None:
        gram = np.zeros((layer.width, layer.width))
        block = block_rows(layer.width)
        for start in range(0, len(task.rows), block):
            add_products(gram, turned[:, start : start + block], 1.0)

    turned = passes.q.T.contiguous()
    sides = {
        "batches": lambda: train(method.model, [task], method.recipe(), seed=0),
        "features": encode,
        "statistics": lambda: accumulate(layer, tensors, task.rows, empty),
        "products": products,
        "factor": lambda: system.factor(RIDGE),
        "solution of one ridge": lambda: system.measured(RIDGE),
        "one pass": lambda: passes.times(passes.right),
    }
    taken = alternately({name: _timed(name, work) for name, work in sides.items()}, rounds)
    seconds = {name: round(statistics.median(values), 2) for name, values in taken.items()}
    x_test = torch.cat([layer.features(tensors, x) for x in test.batches(ENCODED)])
    labels = test.labels(slice(None))

    def score(g: Tensor) -> float:
        right = (x_test @ (passes.centred * g).T).argmax(dim=1) == labels
        return round(100 * float(right.float().mean()), 2)

    return {
        "rows": len(task.rows),
        "features": layer.width,
        "rounds": rounds,
        "seconds": seconds,
        "spread": {name: [round(min(values), 2), round(max(values), 2)] for name, values in taken.items()},
        "batches_over": {
            name: round(statistics.median(b / o for b, o in zip(taken["batches"], taken[name], strict=True)), 2)
            for name in sides
            if name != "batches"
        },
        "conjugate_gradients": passes.conjugate_gradients(score),
        "accuracy_of_the_solution": score(torch.from_numpy(system.solve(RIDGE)[0]).float()),
    }


def _timed(name: str, work: Callable[[], Any]) -> Callable[[], float]:
    def side() -> float:
        began = time.process_time()
        work()
        taken = time.process_time() - began
        print(name, round(taken, 2), flush=True)
        return taken

    return side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="rotated-mnist")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    write_record(measure(given.scenario, given.rounds), given.json)


if __name__ == "__main__":
    main()
