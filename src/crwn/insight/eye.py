"""What FlyNet sees in images: its filters, which of them a context amplifies, and where in an image a context looks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.data.inputs import rows_of, standardize_rows
from crwn.errors import ModelError
from crwn.layers import context_tensors
from crwn.layers.weights.filters import FilterBank
from crwn.learner import Learner
from crwn.models import ImageFlyNet, network_of
from crwn.models.image_encoder import ImageEncoder

Pixels = npt.NDArray[np.float64]


def filter_tiles(encoder: ImageEncoder) -> list[Pixels]:
    """Every filter as an image `[side, side, channels]` with values from 0 to 1, grey where it has no weight."""
    tiles = []
    for bank in _banks(encoder):
        weights = bank.weight.T.reshape(bank.count, bank.side, bank.side, bank.channels).double()
        largest = weights.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        tiles += list((0.5 + 0.5 * weights / largest).numpy())
    return tiles


def amplified(model: ImageFlyNet, tensors: Mapping[str, Tensor]) -> Tensor:
    """How much more a context uses each filter than the start does, `[filters]`, as a multiple of the middle filter's.

    A filter's use is the root mean square of the decoder's weights `R * alpha * v` of its features, over classes, both
    signs and all cells; what all classes have in common and what a second layer makes of it is not counted. The context
    is that of one task; every task starts from the model's own.

    Args:
        tensors: the context.
    """
    start = _use(model, context_tensors(model))
    ratio = _use(model, tensors) / start.clamp_min(1e-12)
    return ratio / ratio.median().clamp_min(1e-12)


def _use(model: ImageFlyNet, tensors: Mapping[str, Tensor]) -> Tensor:
    gains = (tensors["decoder.v"] * tensors.get("decoder.alpha", torch.ones(()))).detach().double()
    weights = (model.decoder.frozen.dense().double() * gains).view(model.classes, model.gains, -1).sum(dim=1)
    power = (weights - weights.mean(dim=0)).square().mean(dim=0)  # of every feature
    return torch.cat([part.mean(dim=(0, 1)).sqrt() for part in _by_bank(model.encoder, power)])


def energy(encoder: ImageEncoder, x: Tensor) -> Tensor:
    """Where images have features: the sum of all responses over the threshold at every pixel, `[images, h, w]`."""
    total = torch.zeros(len(x), *encoder.size)
    for bank, y in zip(_banks(encoder), encoder.responses(x), strict=True):
        total += _on_pixels((y.abs() - encoder.threshold).relu().sum(dim=1), bank, encoder)
    return total


def gaze(model: ImageFlyNet, tensors: Mapping[str, Tensor], x: Tensor, *, classes: int | None = None) -> Tensor:
    """Where in images the context finds what speaks for its prediction, `[images, h, w]`.

    The evidence is the logit of the predicted class minus the mean of the others. Every response contributes its value
    times the derivative of the evidence; a place has the sum over filters, spread evenly over the pixels of its patch.
    Negative values speak against the prediction. The map has the size that the filters see (`encoder.size`).

    Args:
        tensors: the context of one task.
        x: standardized images `[images, channels, height, width]`.
        classes: of the task; by default all outputs.
    """
    encoder = model.encoder
    above: list[Tensor] = []
    averages: list[Tensor] = []
    for (_, cells), y in zip(encoder.parts(), encoder.responses(x), strict=True):
        flat = y.flatten(2)
        both = torch.stack([F.relu(flat - encoder.threshold), F.relu(-flat - encoder.threshold)], dim=1)
        above.append(both.detach().requires_grad_())
        averages.append((above[-1] @ cells.mT).mT)  # [images, 2, windows, filters of the bank]
    averages += encoder.colour_averages(encoder.shrunk(x))  # part of the evidence, but at no place in particular
    logits = model.head.forward_with(tensors, encoder.standardized(averages))[:, :classes]
    chosen = logits.argmax(dim=1, keepdim=True)
    others = (logits.sum(dim=1) - logits.gather(1, chosen)[:, 0]) / max(1, logits.shape[1] - 1)
    slopes = torch.autograd.grad((logits.gather(1, chosen)[:, 0] - others).sum(), above)
    total = torch.zeros(len(x), *encoder.size)
    for bank, both, slope in zip(_banks(encoder), above, slopes, strict=True):
        places = (both.detach() * slope).sum(dim=(1, 2)).view(len(x), *encoder.places(bank.side))
        total += _on_pixels(places, bank, encoder)
    return total


def look(learner: Learner, x: Any, task: str) -> tuple[list[Hashable], Tensor]:
    """What a task predicts for raw images, and the `gaze` of its context on them.

    Raises:
        ModelError: the learner's model is not an `ImageFlyNet`.
    """
    model = learner.model
    if not isinstance(model, ImageFlyNet):
        kind = network_of(model).kind
        raise ModelError(f"where a context looks is known for image-flynet models, this one is {kind}")
    tensors, facts = learner.resident.take_with_facts([task])
    rows = standardize_rows(rows_of(x, shape=learner.input_shape), facts[task].info.scaling)
    context = {name: value[0] for name, value in tensors.items()}
    images = rows.inputs(slice(None))
    classes = facts[task].classes
    with torch.no_grad():
        chosen = model.forward_with(context, images)[:, : len(classes)].argmax(dim=1)
    return [classes[at] for at in chosen.tolist()], gaze(model, context, images, classes=len(classes))


def _on_pixels(places: Tensor, bank: FilterBank, encoder: ImageEncoder) -> Tensor:
    """Values of places `[images, down, across]` spread evenly over the pixels of their patches."""
    patch = torch.full((1, 1, bank.side, bank.side), 1 / bank.side**2)
    spread = F.conv_transpose2d(places[:, None], patch, stride=encoder.stride)[:, 0]
    height, width = encoder.size  # pixels that no patch reaches, with a stride, have nothing
    return F.pad(spread, (0, width - spread.shape[2], 0, height - spread.shape[1]))


def _by_bank(encoder: ImageEncoder, values: Tensor) -> list[Tensor]:
    """Values of the filters' features, divided by bank: each `[2, cells, filters]`."""
    parts = torch.split(values, [2 * cells * count for cells, count in encoder.blocks])
    return [part.view(2, encoder.grid**2, -1) for part, _ in zip(parts, _banks(encoder), strict=False)]


def _banks(encoder: ImageEncoder) -> list[FilterBank]:
    return [bank for bank, _ in encoder.parts()]
