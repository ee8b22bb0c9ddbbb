"""`crwn bench images`: FlyNet on images against NeuroModNet's full schedule, bfloat16 steps, the encoder's speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.bench.convolution import CLASSES, random_images
from crwn.bench.measure import Figure, Message, Side, alternately, ratio
from crwn.bench.time_to_accuracy import time_to
from crwn.layers import product
from crwn.models import ImageFlyNet, NeuroModNet, NeuroModResNet, resnet18
from crwn.models.image_encoder import ImageEncoder
from crwn.scenarios import Scenario, make_scenario
from crwn.scenarios.split import split
from crwn.training.compilation import find_compiler
from crwn.training.precision import Precision, computing_in, has_bf16, replica_to_train
from crwn.training.recipe import Recipe

PAPER_EPOCHS = 250
NEUROMODNET, SUPSUP = 81.66, 86.31  # average accuracies on Split-CIFAR100 that the paper prints


@dataclass(frozen=True)
class Sizes:
    side: int
    batch: int
    filters: int
    width: int  # of the fully connected network
    rounds: int
    compiled: bool
    tasks: tuple[int, int]  # of the scenario: for the lower and the higher target
    targets: tuple[float, float]
    sizes: tuple[str, str]


FULL = Sizes(32, 128, 272, 4096, 7, True, (20, 5), (NEUROMODNET, SUPSUP), ("5k", "10k"))
QUICK = Sizes(16, 10, 16, 32, 2, False, (1, 1), (0.0, 0.0), ("5k", "5k"))


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `images`, on tasks of Split-CIFAR100; quick ones on noise."""
    sizes = QUICK if quick else FULL
    if quick:
        scenario = split(random_images(sizes.side, 50, seed=seed), CLASSES, seed=seed, tasks=1)
    else:
        scenario = make_scenario("split-cifar100", seed=seed, tasks=max(sizes.tasks))
    first = scenario[0].train.without_augmentation()
    x, y = first.inputs(slice(0, sizes.batch)), first.labels(slice(0, sizes.batch))
    fly = ImageFlyNet(x.shape[1:], CLASSES, seed=seed, filters=sizes.filters)
    resnet = NeuroModResNet(10, CLASSES, seed=seed, input_shape=(3, sizes.side, sizes.side))
    dense = NeuroModNet(784, (sizes.width, sizes.width), CLASSES, seed=seed)
    rows = torch.randn(sizes.batch, 784, generator=torch.Generator().manual_seed(seed))
    compiled = sizes.compiled and find_compiler() is not None
    if sizes.compiled and not compiled:
        note("no C++ compiler here: steps were measured eagerly")
    if compiled:
        progress("images: compiling, which takes minutes the first time")
    sides: dict[str, Side] = {
        "features": lambda: _discard(fly.encode(x)),
        "products": _products(fly.encoder, x),
        "1d": _step(resnet, x, y, "float32", compiled=compiled),
        "stl": _step(resnet18(classes=CLASSES), x, y, "float32", compiled=compiled),
        "fc": _step(dense, rows, y, "float32", compiled=compiled),
    }
    low = has_bf16()
    if low:
        sides["1d bf16"] = _step(resnet, x, y, "bf16", compiled=compiled)
        sides["fc bf16"] = _step(dense, rows, y, "bf16", compiled=compiled)
        if compiled:  # as it is trained: only convolutions are compiled by default
            sides["fc eager"] = _step(dense, rows, y, "float32", compiled=False)
            sides["fc eager bf16"] = _step(dense, rows, y, "bf16", compiled=False)
    else:
        note("no bfloat16 instructions here: bf16 was not measured")
    progress(f"images: measuring {', '.join(sides)}")
    taken = alternately(sides, sizes.rounds, warm_up=2)
    steps = PAPER_EPOCHS * -(-len(first) // sizes.batch)
    return [
        *_times(sizes, scenario, taken, steps, seed=seed, progress=progress, note=note),
        *_ratios(sizes, taken, low=low, compiled=compiled),
    ]


def _times(
    sizes: Sizes,
    scenario: Scenario,
    taken: dict[str, list[float]],
    steps: int,
    *,
    seed: int,
    progress: Message,
    note: Message,
) -> Iterable[Figure]:
    """Times to the accuracies that the paper prints, against the full schedules of NeuroModNet 1d and STL."""
    ways: tuple[tuple[str, float, dict[str, str]], ...] = (
        ("neuromodnet", sizes.targets[0], {}),
        ("supsup", sizes.targets[1], {"recipe": "best"}),
    )
    for at, (whose, target, settings) in enumerate(ways):
        size, tasks = sizes.sizes[at], scenario[: sizes.tasks[at]]
        progress(f"images: FlyNet {size} on {len(tasks)} tasks until it has {target}")
        reached = time_to(target, tasks, size=size, settings=settings, seed=seed)
        if reached.seconds is None:
            note(f"FlyNet {size} ended at {reached.final:.2f} on {len(tasks)} tasks, below {target}")
            continue
        form = "".join(f", {name}={value}" for name, value in settings.items())
        facts = {"size": f"{size}{form}", "tasks": len(tasks), "target": target, "steps": steps, **asdict(reached)}
        for name, side, label in (("", "1d", "NeuroModNet 1d"), ("_stl", "stl", "STL")):
            what = (
                f"seconds of a task: {label}'s {PAPER_EPOCHS} epochs ({steps} steps of the measured time) over FlyNet "
                f"{size}{form} from images to a mean of {target} on the test images of {len(tasks)} tasks"
            )
            yield ratio(
                f"images.flynet_vs_neuromodnet{name}" if at == 0 else f"images.flynet_to_{whose}{name}",
                what,
                slower=[steps * step for step in taken[side]],
                faster=[reached.seconds] * len(taken[side]),
                facts=facts,
            )


def _ratios(sizes: Sizes, taken: dict[str, list[float]], *, low: bool, compiled: bool) -> Iterable[Figure]:
    form = "compiled" if compiled else "eager"
    facts = {"batch": sizes.batch, "side": sizes.side, "steps": form}
    yield ratio(
        "images.encoder_roofline",
        "share of the throughput of the same products alone, by the fastest library, that the whole encoder has",
        slower=taken["products"],
        faster=taken["features"],
        facts=facts | {"images_per_second": sizes.batch / min(taken["features"])},
    )
    if low:
        for name, side, label in (("bf16_step", "1d", "NeuroModNet 1d"), ("bf16_step_fc", "fc", f"FC{sizes.width}")):
            what = f"seconds of a training step of {label}, {form}: float32 over bfloat16"
            yield ratio(f"images.{name}", what, slower=taken[side], faster=taken[f"{side} bf16"], facts=facts)
        if compiled:
            what = f"seconds of a training step of FC{sizes.width}, not compiled: float32 over bfloat16"
            eager = facts | {"steps": "eager"}
            slower, faster = taken["fc eager"], taken["fc eager bf16"]
            yield ratio("images.bf16_step_fc_eager", what, slower=slower, faster=faster, facts=eager)


def _products(encoder: ImageEncoder, x: Tensor) -> Side:
    """The multiplications of the encoder alone, as large matrix products."""
    shapes = []
    for bank in encoder.banks:
        weight = bank.get_buffer("weight")
        down, across = encoder.places(round((weight.shape[0] / x.shape[1]) ** 0.5))
        shapes.append((torch.randn(len(x) * down * across, weight.shape[0]), weight))

    def multiply() -> None:
        for patches, weight in shapes:
            product(patches, weight.mT)

    return multiply


def _step(model: nn.Module, x: Tensor, y: Tensor, precision: Precision, *, compiled: bool) -> Side:
    """One step of Adam in this precision."""
    network = replica_to_train(model, Recipe(precision=precision))
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=1e-3)

    def forward(batch: Tensor) -> Tensor:
        with computing_in(precision):
            out: Tensor = network(batch)
        return out

    call: Callable[[Tensor], Tensor] = torch.compile(forward, dynamic=False) if compiled else forward

    def step() -> None:
        loss = F.cross_entropy(call(x).float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _discard(features: Tensor) -> None:
    """Return nothing: a side returns seconds or None."""
