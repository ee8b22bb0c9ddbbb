"""`crwn bench images`: FlyNet on images against NeuroModNet's full schedule, bfloat16 steps, the encoder's speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.bench.convolution import CLASSES, random_images
from crwn.bench.measure import Figure, Message, Side, alternately, ratio
from crwn.data.dataset import Rows
from crwn.models import ImageFlyNet, NeuroModNet, NeuroModResNet
from crwn.models.functional import replica
from crwn.models.image_encoder import ImageEncoder
from crwn.training.compilation import find_compiler
from crwn.training.loop import train
from crwn.training.precision import Precision, computing_in, convert_frozen, has_bf16
from crwn.training.recipe import image_recipe, make_recipe
from crwn.training.task import PreparedTask

# A task of Split-CIFAR100 as both networks learn it.
IMAGES, EPOCHS, PAPER_EPOCHS = 2500, 40, 250
STEPS, PAPER_STEPS = EPOCHS * -(-2 * IMAGES // 128), PAPER_EPOCHS * -(-IMAGES // 128)


@dataclass(frozen=True)
class Sizes:
    side: int
    batch: int
    filters: int
    width: int  # of the fully connected network
    rounds: int
    steps: int  # of FlyNet's decoder, measured at once
    compiled: bool


FULL = Sizes(32, 128, 272, 4096, 7, 40, True)
QUICK = Sizes(16, 10, 16, 32, 2, 2, False)


def measure(*, quick: bool, seed: int, progress: Message, note: Message) -> list[Figure]:
    """All figures of `images`; images are noise, because times do not depend on what they show."""
    sizes = QUICK if quick else FULL
    raw = random_images(sizes.side, sizes.batch, seed=seed)
    x, y = raw.x_train.float().sub_(127.5).div_(64.0), raw.y_train
    fly = ImageFlyNet(raw.shape, CLASSES, seed=seed, filters=sizes.filters)
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
        "decoder": lambda: _decoder(fly, x, y, sizes),
        "1d": _step(resnet, x, y, "float32", compiled=compiled),
        "fc": _step(dense, rows, y, "float32", compiled=compiled),
    }
    low = has_bf16()
    if low:
        sides["1d bf16"] = _step(resnet, x, y, "bf16", compiled=compiled)
        sides["fc bf16"] = _step(dense, rows, y, "bf16", compiled=compiled)
    else:
        note("no bfloat16 instructions here: bf16 was not measured")
    progress(f"images: measuring {', '.join(sides)}")
    return list(_figures(sizes, alternately(sides, sizes.rounds, warm_up=2), low=low, compiled=compiled))


def _figures(sizes: Sizes, taken: dict[str, list[float]], *, low: bool, compiled: bool) -> Iterable[Figure]:
    form = "compiled" if compiled else "eager"
    facts = {"batch": sizes.batch, "side": sizes.side, "steps": form}
    learned = [
        2 * IMAGES / sizes.batch * features + STEPS / sizes.steps * decoder
        for features, decoder in zip(taken["features"], taken["decoder"], strict=True)
    ]
    yield ratio(
        "images.flynet_vs_neuromodnet",
        f"seconds of a task of Split-CIFAR100: NeuroModNet 1d's {PAPER_EPOCHS} epochs ({PAPER_STEPS} {form} steps) "
        f"over FlyNet 5k's (features of {2 * IMAGES} images, {STEPS} steps); accuracies are in results/split-cifar100",
        slower=[PAPER_STEPS * step for step in taken["1d"]],
        faster=learned,
        facts=facts,
    )
    yield ratio(
        "images.encoder_roofline",
        "share of the throughput of the same products alone that the whole encoder has",
        slower=taken["products"],
        faster=taken["features"],
        facts=facts | {"images_per_second": sizes.batch / min(taken["features"])},
    )
    if low:
        for name, side, label in (("bf16_step", "1d", "NeuroModNet 1d"), ("bf16_step_fc", "fc", f"FC{sizes.width}")):
            what = f"seconds of a training step of {label}, {form}: float32 over bfloat16"
            yield ratio(f"images.{name}", what, slower=taken[side], faster=taken[f"{side} bf16"], facts=facts)


def _products(encoder: ImageEncoder, x: Tensor) -> Side:
    """The multiplications of the encoder alone, as large matrix products."""
    shapes = []
    for bank in encoder.banks:
        weight = bank.get_buffer("weight")
        down, across = encoder.places(round((weight.shape[0] / x.shape[1]) ** 0.5))
        shapes.append((torch.randn(len(x) * down * across, weight.shape[0]), weight))

    def multiply() -> None:
        for patches, weight in shapes:
            torch.mm(patches, weight)

    return multiply


def _decoder(fly: ImageFlyNet, x: Tensor, y: Tensor, sizes: Sizes) -> float:
    """Seconds of some steps of the decoder on features of these images."""
    rows = Rows(torch.randn(len(x), fly.features).half(), y)
    recipe = make_recipe(**(image_recipe() | {"batches": sizes.steps}))
    began = time.perf_counter()
    train(fly.head, [PreparedTask("images", rows, range(CLASSES))], recipe, seed=0)
    return time.perf_counter() - began


def _step(model: nn.Module, x: Tensor, y: Tensor, precision: Precision, *, compiled: bool) -> Side:
    """One step of Adam in this precision."""
    network = convert_frozen(replica(model).train(), precision)
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
