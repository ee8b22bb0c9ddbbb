"""`crwn bench scaling`: how time grows with tasks, width and rows, as exponents fitted to ratios of times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from crwn.bench.measure import Figure, Message, Side, alternately, exponent
from crwn.bench.mixed import chosen_tasks, make_stack, mixed
from crwn.bench.paper_style import BATCH
from crwn.bench.stacked import SKIP, StepTimer, task_rows
from crwn.contexts import ContextStack
from crwn.layers.weights import named_generator
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario, make_scenario
from crwn.training.loop import train
from crwn.training.recipe import make_recipe


@dataclass(frozen=True)
class Sizes:
    data: str
    tasks: Sequence[int]
    widths: dict[str, Sequence[int]]
    rows: Sequence[int]
    resident: Sequence[int]
    width: int  # where it is not what varies
    batches: int
    rounds: int


FULL = Sizes(
    "mnist",
    (1, 2, 4, 8, 16),
    {"gaussian": (256, 512, 1024, 2048), "hadamard": (256, 512, 1024, 2048, 4096, 8192)},
    (32, 64, 128, 256, 512, 1024),
    (10, 100, 1_000, 10_000),
    256,
    8,
    5,
)
QUICK = Sizes("digits", (1, 2), {"gaussian": (8, 16), "hadamard": (8, 16)}, (4, 8), (4, 8), 8, 2, 2)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `scaling`: 1 is growth in proportion, 0 none; smaller is better."""
    sizes = QUICK if quick else FULL
    scenario = make_scenario(f"rotated-{sizes.data}", seed=seed, tasks=max(sizes.tasks))
    (features,) = scenario.input_shape
    figures = []
    progress("scaling: training time with stacked tasks")
    network = NeuroModNet(features, (sizes.width,) * 2, scenario.num_classes, seed=seed)
    sides: dict[int, Side] = {n: partial(_step, network, scenario, n, sizes.batches, seed) for n in sizes.tasks}
    what = f"time of a step with the number of stacked tasks, FC{sizes.width}"
    figures.append(_fit("tasks", what, sides, sizes.rounds))
    for kind, widths in sizes.widths.items():
        progress(f"scaling: training time with width, {kind}")
        sides = {}
        for width in widths:
            made = NeuroModNet(features, (width,) * 2, scenario.num_classes, seed=seed, weights=kind)
            sides[width] = partial(_step, made, scenario, 1, sizes.batches, seed)
        figures.append(_fit(f"width_{kind}", f"time of a step with the width, {kind}, one task", sides, sizes.rounds))
    progress("scaling: mixed prediction with rows and resident tasks")
    wide = NeuroModNet(features, (4 * sizes.width,) * 2, scenario.num_classes, seed=seed)
    stacks = {n: make_stack(wide, n, seed=seed) for n in sizes.resident}
    whole = stacks[max(sizes.resident)]
    sides = {n: _prepared(wide, whole, n, seed) for n in sizes.rows}
    what = f"time of a mixed prediction with its rows, {max(sizes.resident):,} resident tasks, FC{4 * sizes.width}"
    figures.append(_fit("rows", what, sides, sizes.rounds))
    rows = max(sizes.rows) // 4
    sides = {n: _prepared(wide, stack, rows, seed) for n, stack in stacks.items()}
    what = f"time of a mixed prediction of {rows} rows with the number of resident tasks, FC{4 * sizes.width}"
    figures.append(_fit("resident", what, sides, sizes.rounds))
    return figures


def _fit(name: str, what: str, sides: dict[int, Side], rounds: int) -> Figure:
    taken = alternately({str(size): side for size, side in sides.items()}, rounds)
    by_round = [[taken[str(size)][turn] for size in sides] for turn in range(rounds)]
    return exponent(f"scaling.{name}", what, list(sides), by_round, facts={})


def _step(model: NeuroModNet, scenario: Scenario, tasks: int, batches: int, seed: int) -> float:
    """Return the seconds of a training step of this many stacked tasks."""
    timer = StepTimer()
    recipe = make_recipe(batches=batches + SKIP, batch_size=BATCH)
    train(model, task_rows(scenario, tasks), recipe, seed=seed, callbacks=[timer])
    return timer.seconds


def _prepared(model: NeuroModNet, stack: ContextStack, rows: int, seed: int) -> Side:
    """Return a mixed prediction of `rows` rows from a stack, as a side of a comparison."""
    names = chosen_tasks(stack, len(stack), rows, seed=seed)
    dice = named_generator("bench", seed)
    x = torch.from_numpy(dice.standard_normal((rows, *model.input_shape), "float32"))

    def predict() -> float:
        began = time.perf_counter()
        for _ in range(3):
            mixed(model, stack, names, x)
        return (time.perf_counter() - began) / 3

    return predict
