"""Where the time of a training step goes, by operators.

python -m crwn.bench.profile results/bench/profile.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.profiler import ProfilerActivity, profile

from crwn._utils import write_whole
from crwn.bench.record import heading
from crwn.bench.stacked import task_rows
from crwn.models import FlyNet, NeuroModNet
from crwn.scenarios import Scenario, make_scenario
from crwn.training.loop import train
from crwn.training.recipe import make_recipe
from crwn.training.stacking import model_stack_size

# What operators belong to, by the start of their names.
PARTS = {
    "matrix products": ("aten::mm", "aten::bmm", "aten::addmm", "mkldnn", "aten::baddbmm"),
    "sparse encoder": ("aten::_embedding_bag", "aten::embedding_bag"),
    "gathering and preparing rows": ("aten::index_select", "aten::_to_copy", "aten::copy_", "aten::stack", "aten::cat"),
    "elementwise and sums": (
        "aten::mul",
        "aten::add",
        "aten::sub",
        "aten::sum",
        "aten::mean",
        "aten::clamp",
        "aten::relu",
        "aten::threshold",
        "aten::constant_pad",
        "aten::fill",
        "aten::zero",
        "aten::div",
        "aten::le",
        "aten::where",
    ),
    "optimiser": ("Optimizer", "aten::_foreach", "aten::addcdiv", "aten::addcmul", "aten::sqrt"),
}


def profiled(model: nn.Module, scenario: Scenario, *, batches: int, seed: int) -> dict[str, Any]:
    """Return shares of the time of stacked training steps by what it is spent on, and the longest operators."""
    tasks = task_rows(scenario, model_stack_size(model))
    recipe = make_recipe(batches=batches)
    train(model, tasks, make_recipe(batches=2), seed=seed)
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        train(model, tasks, recipe, seed=seed)
    spent = {event.key: event.self_cpu_time_total for event in watched.key_averages()}
    whole = sum(spent.values())
    shares = dict.fromkeys(PARTS, 0.0)
    rest = 0.0
    for name, time in spent.items():
        part = next((part for part, starts in PARTS.items() if name.startswith(starts)), None)
        if part is None:
            rest += time / whole
        else:
            shares[part] += time / whole
    longest = sorted(spent.items(), key=lambda pair: -pair[1])[:8]
    return {
        "stack": len(tasks),
        "batches": batches,
        "milliseconds_a_step": whole / 1000 / batches,
        "shares": shares | {"everything else": rest},
        "longest": {name: time / whole for name, time in longest},
    }


def measure(*, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Return a record with profiles of three training loops."""
    scenario = make_scenario("rotated-digits" if quick else "rotated-mnist", seed=seed, tasks=16)
    (features,), classes = scenario.input_shape, scenario.num_classes
    small, wide, hidden = (8, 16, 32) if quick else (256, 4096, 10 * features)
    models: dict[str, nn.Module] = {
        f"NeuroModNet-FC{small}, dense": NeuroModNet(features, (small,) * 2, classes, seed=seed),
        f"NeuroModNet-FC{wide}, Hadamard": NeuroModNet(features, (wide,) * 2, classes, seed=seed, weights="hadamard"),
        f"FlyNet, {hidden} hidden": FlyNet(features, hidden, classes, seed=seed),
    }
    record = heading(quick=quick, seed=seed)
    batches = 3 if quick else 20
    record["profile"] = {name: profiled(model, scenario, batches=batches, seed=seed) for name, model in models.items()}
    return record


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m crwn.bench.profile RECORD", file=sys.stderr)
        return 2
    record = measure()
    record["command"] = f"python -m crwn.bench.profile {arguments[0]}"
    write_whole(Path(arguments[0]), (json.dumps(record, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
