"""Gradients of alpha and v of NeuroModNet 1d by precision, against float64: `python benchmarks/alpha_gradients.py`.

At the start, and after some steps of training in float32, every layer's gradients of one batch are computed in float64,
float32 and bfloat16, with alpha in the kernel and, with `exact_alpha`, in the norm. The record has the median over
layers (without the head) of the error of alpha's gradient as a multiple of its size, the share of layers in which its
sign is right, and the median cosine of the gradients of v.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from write_record import write_record

from crwn.layers import context_tensors
from crwn.layers.conv import use_exact_alpha
from crwn.models import NeuroModResNet
from crwn.models.functional import replica
from crwn.scenarios import make_scenario
from crwn.training.loop import train
from crwn.training.precision import computing_in
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

EXACT = "exact alpha"
WAYS = ("float32", f"float32, {EXACT}", "bf16", f"bf16, {EXACT}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5, help="of training before the second measurement")
    parser.add_argument("--batches", type=int, default=4, help="batches over which medians are taken")
    parser.add_argument("--out", type=Path, help="where the record goes")
    args = parser.parse_args()
    task = make_scenario("split-cifar100", seed=0, tasks=1)[0]
    rows = task.train
    model = NeuroModResNet(10, 5, seed=0)
    recipe = Recipe(optimizer="adam", rate=0.1, schedule="cosine", epochs=args.epochs, compile=False)
    learned = train(model, [PreparedTask(task.name, rows, tuple(range(5)))], recipe, seed=0)[0]
    contexts = {"at the start": context_tensors(model), f"after {learned.steps} steps": learned.tensors}
    images = rows.without_augmentation()
    batches = [slice(128 * at, 128 * (at + 1)) for at in range(args.batches)]
    measured = {
        when: compare(model, context, [(images.inputs(b), images.labels(b)) for b in batches])
        for when, context in contexts.items()
    }
    write_record({"what": (__doc__ or "").strip(), "seed": 0, "task": task.name, "measured": measured}, args.out)


def compare(
    model: NeuroModResNet, context: Mapping[str, Tensor], batches: list[tuple[Tensor, Tensor]]
) -> dict[str, Any]:
    """Of every way: how alpha's and v's gradients differ from those of float64."""
    errors: dict[str, list[float]] = {way: [] for way in WAYS}
    signs: dict[str, list[bool]] = {way: [] for way in WAYS}
    cosines: dict[str, list[float]] = {way: [] for way in WAYS}
    for x, y in batches:
        exact = gradients(model, context, x, y, "float64")
        for way in WAYS:
            found = gradients(model, context, x, y, way)
            for name, wanted in exact.items():
                if name.startswith("head"):
                    continue
                if name.endswith(".v"):
                    cosines[way].append(float(torch.cosine_similarity(found[name].flatten(), wanted.flatten(), 0)))
                else:
                    errors[way].append(float((found[name] - wanted).abs() / wanted.abs()))
                    signs[way].append(bool(found[name].sign() == wanted.sign()))
    return {
        way: {
            "alpha: median error over size": statistics.median(errors[way]),
            "alpha: share of right signs": statistics.mean(signs[way]),
            "v: median cosine": statistics.median(cosines[way]),
        }
        for way in WAYS
    }


def gradients(
    model: NeuroModResNet, context: Mapping[str, Tensor], x: Tensor, y: Tensor, way: str
) -> dict[str, Tensor]:
    """Of the mean cross-entropy of a batch, by name, as float64."""
    network = replica(model).train()
    with torch.no_grad():
        for name, value in context_tensors(network).items():
            value.copy_(context[name])
    if way == "float64":
        network, x = network.double(), x.double()
    if EXACT in way:
        use_exact_alpha(network)
    with computing_in("bf16" if way.startswith("bf16") else "float32"):
        logits = network(x)
    F.cross_entropy(logits if way == "float64" else logits.float(), y).backward()
    return {name: p.grad.double() for name, p in network.named_parameters() if p.grad is not None}


if __name__ == "__main__":
    main()
