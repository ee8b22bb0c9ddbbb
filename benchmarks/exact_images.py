"""Why the closed form was below Adam on images: one thing changed at a time, measured on held-out training images.

    python benchmarks/exact_images.py --json results/bench/exact_images.json

FlyNet 5k on tasks of Split-CIFAR100; every fifth training image is held out. For every change and ridge: accuracy on
held-out images, generalized cross-validation, accuracy on the images that were learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from write_record import write_record

from crwn.methods.independent import prepared
from crwn.methods.make import make_method
from crwn.scenarios import make_scenario
from crwn.training.exact.accumulate import round_rows
from crwn.training.exact.output_layer import output_layer
from crwn.training.features import encoded_task

RIDGES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
HELD = 5  # every fifth image
PROBES = 16
SCALED = "features scaled to equal squares"


def measure(tasks: int) -> list[dict[str, Any]]:
    """Accuracies of every change and ridge, averaged over the tasks."""
    scenario = make_scenario("split-cifar100", tasks=tasks)
    method, _ = make_method("flynet", scenario, size="5k", seed=0)
    found: dict[tuple[str, float], list[dict[str, float]]] = {}
    for number in range(tasks):
        head, ready = encoded_task(method.model, prepared(scenario[number]))
        frozen = torch.from_numpy(output_layer(head).frozen[: ready.classes]).float()
        centred = frozen - frozen.mean(dim=0)
        x, y = ready.rows.inputs(slice(None)).float(), ready.rows.labels(slice(None))
        half = len(x) // 2  # images, then their mirror images
        held = torch.arange(half) % HELD == 0
        learned = torch.cat([~held, ~held])
        test = (x[:half][held], y[:half][held])
        for change, h, labels in _changes(x[learned], y[learned]):
            for ridge, facts in _solutions(centred, h, labels, test, scaled=change == SCALED):
                found.setdefault((change, ridge), []).append(facts)
        print(f"task {number} is done", flush=True)
    return [
        {"change": change, "ridge": ridge, **{key: round(sum(o[key] for o in all_) / tasks, 5) for key in all_[0]}}
        for (change, ridge), all_ in found.items()
    ]


def _changes(h: Tensor, y: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    rounded, step = round_rows(h)
    yield "none", h, y
    yield "features rounded to 8 bits", rounded.float() * step[:, None], y
    yield "without mirrored copies", h[: len(h) // 2], y[: len(y) // 2]
    yield SCALED, h, y


def _solutions(
    centred: Tensor, h: Tensor, y: Tensor, test: tuple[Tensor, Tensor], *, scaled: bool
) -> Iterator[tuple[float, dict[str, float]]]:
    classes = len(centred)
    wanted = torch.eye(classes)[y] - 1 / classes
    normal = (centred.T @ centred) * (h.T @ h)
    right = (centred * (h.T @ wanted).T).sum(dim=0)
    unit = float(normal.diagonal().mean())
    size = (normal.diagonal() / unit).clamp_min(1e-6).sqrt() if scaled else torch.ones(len(normal))
    normal, right = normal / unit / size[:, None] / size, right / unit / size
    signs = torch.randn(len(normal), PROBES, generator=torch.Generator().manual_seed(0)).sign()
    equations = len(h) * (classes - 1)
    for ridge in RIDGES:
        factor, failed = torch.linalg.cholesky_ex(normal + ridge * torch.eye(len(normal)))
        if int(failed):
            continue
        gain = torch.cholesky_solve(right[:, None], factor)[:, 0]
        trace = float(torch.linalg.solve_triangular(factor, signs, upper=False).square().sum()) / PROBES
        freedom = len(normal) - ridge * trace
        rest = float(wanted.square().sum()) - unit * float(gain @ right + ridge * gain @ gain)
        weight = centred * (gain / size)
        yield (
            ridge,
            {
                "held_out": _accuracy(test[0], test[1], weight),
                "cross_validation": rest / equations / (1 - freedom / equations) ** 2,
                "training": _accuracy(h, y, weight),
            },
        )


def _accuracy(h: Tensor, y: Tensor, weight: Tensor) -> float:
    return 100 * float(((h @ weight.T).argmax(dim=1) == y).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the record here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    write_record({"tasks": given.tasks, "ridges": measure(given.tasks)}, given.json)


if __name__ == "__main__":
    main()
