"""`crwn bench convolution`: a step of NeuroModNet's ResNet-18 against the dense network's, SupSup's, BatchE's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.bench.measure import Figure, Message, Side, alternately, ratio
from crwn.data import ImageSet
from crwn.layers.conv import TaskBatchNorm2d
from crwn.layers.weights import named_generator
from crwn.methods.batche import BatchE
from crwn.methods.independent import Independent
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.methods.supsup import SupSup
from crwn.models import resnet18
from crwn.scenarios.augment import crop_and_flip
from crwn.scenarios.split import split
from crwn.training.compilation import find_compiler

CLASSES = 5


@dataclass(frozen=True)
class Sizes:
    side: int
    batch: int
    rounds: int
    compiled: bool


FULL = Sizes(32, 128, 15, True)
QUICK = Sizes(16, 10, 2, False)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `convolution`; compiled ones where there is a compiler."""
    sizes = QUICK if quick else FULL
    images = random_images(sizes.side, sizes.batch, seed=seed)
    scenario = split(images, CLASSES, seed=seed, tasks=1)
    rows = scenario[0].train
    x, y = rows.inputs(slice(None)), rows.labels(slice(None))

    def network(method: type[Independent]) -> nn.Module:
        return method(scenario, size="1d", seed=seed, options=method.Options()).network()

    networks: dict[str, Callable[[], nn.Module]] = {
        "neuromodnet": partial(network, NeuroModNetMethod),
        "dense": partial(resnet18, norm=lambda channels: TaskBatchNorm2d(channels), classes=CLASSES),
        "supsup": partial(network, SupSup),
        "batche": partial(network, BatchE),
    }
    sides: dict[str, Side] = {name: training_step(make().train(), x, y) for name, make in networks.items()}
    compiled = sizes.compiled and find_compiler() is not None
    if compiled:
        progress("convolution: compiling, which takes minutes the first time")
        for name in ("neuromodnet", "dense"):
            sides[f"{name} compiled"] = training_step(networks[name]().train(), x, y, compiled=True)
    elif sizes.compiled:
        note("no C++ compiler here: compiled steps were not measured")
    dice = named_generator("augment", seed)
    sides["augmentation"] = lambda: _discard(crop_and_flip(images.x_train, dice))
    progress(f"convolution: measuring {', '.join(sides)}")
    return list(_figures(sizes, alternately(sides, sizes.rounds, warm_up=2), compiled=compiled))


def _figures(sizes: Sizes, taken: dict[str, list[float]], *, compiled: bool) -> Iterable[Figure]:
    facts = {"batch": sizes.batch, "side": sizes.side}
    ours = taken["neuromodnet"]
    of = "seconds of a step: the dense network's over NeuroModNet 1d's"
    yield ratio("convolution.vs_dense", f"{of}, eager", slower=taken["dense"], faster=ours, facts=facts)
    if compiled:
        yield ratio(
            "convolution.vs_dense_compiled",
            f"{of}, both compiled",
            slower=taken["dense compiled"],
            faster=taken["neuromodnet compiled"],
            facts=facts,
        )
        yield ratio(
            "convolution.compiled",
            "seconds of a step of NeuroModNet 1d: eager over compiled",
            slower=ours,
            faster=taken["neuromodnet compiled"],
            facts=facts,
        )
    for name, label, printed in (("supsup", "SupSup", "1.02"), ("batche", "BatchE", "1.70")):
        what = f"seconds of a step: {label}'s over NeuroModNet 1d's (the paper's times of whole tasks: {printed})"
        yield ratio(f"convolution.vs_{name}", what, slower=taken[name], faster=ours, facts=facts)
    yield ratio(
        "convolution.step_over_augmentation",
        "seconds of a step of NeuroModNet 1d over those of cropping and mirroring its batch",
        slower=ours,
        faster=taken["augmentation"],
        facts=facts,
    )


def random_images(side: int, count: int, *, seed: int) -> ImageSet:
    """Return colour images of noise in five classes: the time does not depend on what they show."""
    x = torch.from_numpy(named_generator("images", seed).integers(0, 256, (count, 3, side, side), dtype="uint8"))
    y = torch.arange(count) % CLASSES
    return ImageSet("noise", tuple(range(CLASSES)), (3, side, side), x, y, x, y, (0.5,) * 3, (0.25,) * 3)


def training_step(model: nn.Module, x: Tensor, y: Tensor, *, compiled: bool = False) -> Side:
    """Return one step of Adam, as a side of a comparison."""
    learned: Sequence[nn.Parameter] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=1e-3)
    forward = torch.compile(model, dynamic=False) if compiled else model

    def step() -> None:
        loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _discard(batch: Tensor) -> None:
    """Return nothing: a side returns seconds or None."""
