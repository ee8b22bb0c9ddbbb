"""`crwn bench training`: seconds per task, against a paper-style implementation, dense weights and products alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from crwn.bench import avalanche_peer
from crwn.bench.measure import Figure, Message, Side, alternately, middle, ratio
from crwn.bench.paper_style import BATCH, PaperStyle
from crwn.bench.stacked import TASK_BATCHES, ManyProcesses, Measured, Stacked
from crwn.data import ImageSet, load
from crwn.layers import product
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario, make_scenario
from crwn.training.engines.processes import ProcessEngine
from crwn.training.precision import PRECISIONS, has_bf16


@dataclass(frozen=True)
class Sizes:
    """What is measured; figures keep their names whatever the widths are."""

    data: str
    rounds: int
    widths: dict[str, int]  # by the name in the figure
    ours: int  # batches measured of a 256-wide stack; fewer of wider ones
    theirs: int
    workers: Sequence[int] = (0, 2)


FULL = Sizes("mnist", 5, {n: int(n) for n in ("256", "1024", "4096", "16384")}, 60, 60)
QUICK = Sizes("digits", 2, {"256": 16, "1024": 24, "4096": 32, "16384": 48}, 4, 2, (0,))


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `training`."""
    sizes = QUICK if quick else FULL
    images = load(sizes.data)
    scenario = make_scenario(f"rotated-{sizes.data}", seed=seed, tasks=16)
    figures: list[Figure] = []
    for name, kind in (("256", "gaussian"), ("1024", "gaussian"), ("4096", "hadamard")):
        progress(f"training: {kind} FC{sizes.widths[name]} against the paper-style implementation")
        figures += against_paper_style(sizes, images, scenario, name, kind, seed)
    for name in ("1024", "4096", "16384"):
        progress(f"training: Hadamard against dense at {sizes.widths[name]}")
        figures.append(_against_dense(sizes, scenario, name, seed))
    for name in ("1024", "4096"):
        progress(f"training: FC{sizes.widths[name]} against its products alone")
        figures += _roofline(sizes, scenario, name, seed)
    progress("training: against Avalanche's loop")
    found = avalanche_peer.measure(scenario, sizes.widths["1024"], rounds=sizes.rounds, quick=quick, seed=seed)
    if isinstance(found, str):
        note(found)
    else:
        figures.append(found)
    return figures


def _fewer(most: int, width: int, least: int) -> int:
    """Return how many batches to measure: fewer where one takes long."""
    return max(least, most * 256 // width)


def _rounds(sizes: Sizes, width: int) -> int:
    """Return how many rounds to measure: fewer where one takes a minute."""
    return sizes.rounds if width < 4096 else min(3, sizes.rounds)


def against_paper_style(
    sizes: Sizes, images: ImageSet, scenario: Scenario, name: str, kind: str, seed: int
) -> Iterator[Figure]:
    """In float32 and, for dense weights where the processor has it, in bfloat16; the peer computes in float32."""
    width = sizes.widths[name]
    batches = _fewer(sizes.ours, width, min(sizes.ours, 20))
    precisions = PRECISIONS if kind == "gaussian" and has_bf16() else PRECISIONS[:1]
    stacks = {chosen: Stacked(scenario, width, kind, batches, seed, chosen) for chosen in precisions}
    dense = NeuroModNet(images.features, (width, width), scenario.num_classes, seed=seed)
    peer_batches = _fewer(sizes.theirs, width, min(sizes.theirs, 8))
    own: dict[str, Side] = {f"{chosen}: one process": stack.seconds_per_task for chosen, stack in stacks.items()}
    theirs: dict[str, Side] = {}
    for workers in sizes.workers:
        peer = PaperStyle(dense, images, angle=30.0, workers=workers)
        theirs[f"theirs: {workers} workers"] = lambda peer=peer: peer.seconds_per_task(  # type: ignore[misc]
            batches=peer_batches, of=TASK_BATCHES, test_batches=peer_batches
        )
    with ProcessEngine() as engine:
        if engine.workers > 1:
            for chosen in precisions:
                many = ManyProcesses(engine, Measured(sizes.data, width, kind, batches, seed, chosen))
                own[f"{chosen}: {engine.workers} processes"] = many.seconds_per_task
        taken = alternately(own | theirs, _rounds(sizes, width))

    # Each side gets what is fastest here: the peer its DataLoader workers, ours one process or one for each core.
    def fastest(whose: str) -> tuple[str, list[float]]:
        times = {way.partition(": ")[2]: times for way, times in taken.items() if way.startswith(f"{whose}:")}
        return min(times.items(), key=lambda found: middle(found[1]))

    best, slower = fastest("theirs")
    for chosen in precisions:
        mine, faster = fastest(chosen)
        words = ("" if kind == "gaussian" else f"_{kind}") + ("" if chosen == "float32" else f"_{chosen}")
        yield ratio(
            f"training.fc{name}{words}_vs_paper_style",
            f"seconds a task at the paper's protocol: a paper-style implementation over ours, {kind}, stacked"
            + ("" if chosen == "float32" else ", ours in bfloat16"),
            slower=slower,
            faster=faster,
            facts={
                "width": width,
                "stack": stacks[chosen].stack,
                "batches_measured": {"ours": batches, "theirs": peer_batches},
                "batches_a_task": TASK_BATCHES,
                "workers": best,
                "ours": mine,
                "seconds_by_side": {way: middle(times) for way, times in taken.items()},
            },
        )


def _against_dense(sizes: Sizes, scenario: Scenario, name: str, seed: int) -> Figure:
    width = sizes.widths[name]
    hadamard = Stacked(scenario, width, "hadamard", _fewer(sizes.ours, width, min(sizes.ours, 20)), seed)
    dense = Stacked(scenario, width, "gaussian", _fewer(sizes.ours, width, 2), seed)
    sides: dict[str, Side] = {"dense": dense.seconds_per_task, "hadamard": hadamard.seconds_per_task}
    taken = alternately(sides, _rounds(sizes, width))
    return ratio(
        f"training.hadamard_vs_dense_{name}",
        "seconds a task: dense frozen weights over Hadamard ones, both stacked",
        slower=taken["dense"],
        faster=taken["hadamard"],
        facts={
            "width": width,
            "stack": dense.stack,
            "batches_measured": {"hadamard": hadamard.batches, "dense": dense.batches},
            "batches_a_task": TASK_BATCHES,
        },
    )


def _roofline(sizes: Sizes, scenario: Scenario, name: str, seed: int) -> list[Figure]:
    """Compare the products a step needs, computed alone by the fastest library, with the step and its two passes."""
    width = sizes.widths[name]
    (features,) = scenario.input_shape
    ours = Stacked(scenario, width, "gaussian", _fewer(sizes.ours, width, 4), seed)
    rows = ours.stack * BATCH
    layers = [(features, width), (width, width), (width, scenario.num_classes)]
    pairs = [_operands(rows, a, b) for a, b in layers] + [_operands(rows, b, a) for a, b in layers]
    operations = sum(2 * 2 * rows * a * b for a, b in layers)
    repeats = ours.batches

    def multiply() -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            for left, right in pairs:
                product(left, right)
        return (time.perf_counter() - began) / repeats

    passes = _passes(ours, repeats)
    taken = alternately({"products": multiply, "step": ours.seconds_per_step, "passes": passes}, sizes.rounds)
    facts: dict[str, float] = {"width": width, "stack": ours.stack, "rows": rows, "operations_a_step": operations}
    peak = [operations / seconds / 1e9 for seconds in taken["products"]]
    facts["peak_gigaflops"] = middle(peak)
    whole = "forward and input-gradient operations a second of a whole training step over those of its products alone"
    inner = "the same for the forward and backward pass alone, without data and optimizer"
    return [
        ratio(f"training.roofline_fc{name}", whole, slower=taken["products"], faster=taken["step"], facts=facts),
        ratio(
            f"training.roofline_fc{name}_passes", inner, slower=taken["products"], faster=taken["passes"], facts=facts
        ),
    ]


def _operands(rows: int, inner: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, inner), torch.randn(columns, inner)


def _passes(ours: Stacked, repeats: int) -> Callable[[], float]:
    """Return forward and backward of the stack on one constant batch, as a side of a comparison."""
    from torch.func import functional_call, vmap

    from crwn.layers import context_tensors
    from crwn.training.losses import task_losses

    at = torch.arange(min(BATCH, len(ours.tasks[0].rows)))
    x = torch.stack([task.rows.inputs(at) for task in ours.tasks])
    y = torch.stack([task.rows.labels(at) for task in ours.tasks])
    start = context_tensors(ours.model)
    tensors = {key: torch.stack([value] * ours.stack).requires_grad_() for key, value in start.items()}
    forward = vmap(lambda context, rows: functional_call(ours.model, context, (rows,)))

    def run() -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            loss = task_losses(forward(tensors, x), y, None, None).sum()
            torch.autograd.grad(loss, list(tensors.values()))
        return (time.perf_counter() - began) / repeats

    return run
