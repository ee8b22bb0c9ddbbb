"""FlyNet for images: frozen filters at every place of an image, and a modulated decoder on their averages."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypedDict

import torch
from torch import Tensor

from crwn.errors import ConfigError
from crwn.layers import ModulatedLinear
from crwn.layers.weights.filters import Images
from crwn.models.encoded import EncodedNetwork
from crwn.models.image_encoder import ImageEncoder, encoder_fingerprint

SIZES = {"5k": 5_000, "10k": 10_000, "20k": 20_000, "30k": 30_000}  # by the number of learned parameters, at most
STEP = 16  # filters are a multiple of it, as vectors of the processor are


class ImageFlyNet(EncodedNetwork):
    """`h = grid averages of relu(+-y - t)`, `logits = R (alpha * v ⊙ h)`: y are responses of frozen filters.

    The filters come from the seed alone (whitened patches of dead-leaves pictures, see `ImageEncoder`) unless
    `learn_filters` takes them from images. A task learns v and alpha of the decoder, one number per feature.

    Args:
        input_shape: `(channels, height, width)` of an image; larger ones are averaged down to 48 pixels or less.
        classes: outputs.
        seed: determines filters, frozen decoder weights and the context every task starts from.
        size: "5k", "10k", "20k" or "30k", the most parameters that a task learns; `filters` instead gives their number.
        sides, grid, threshold, stride, root: as for `ImageEncoder`.
        mirror: a task learns every training image and its mirror image.
        shift: if not 0, a task also learns four copies of every training image that are shifted by so many pixels
            along both sides, two of them mirrored.
        mirror_predictions: predictions use the average of the features of an image and of its mirror image.
        modulation, start, start_scale: as for NeuroModNet.

    >>> model = ImageFlyNet((3, 32, 32), classes=5, seed=0, filters=32)
    >>> model(torch.zeros(2, 3, 32, 32)).shape, model.features
    (torch.Size([2, 5]), 576)
    """

    kind = "image-flynet"
    rowwise = True
    byte_scaling = (127.5, 64.0)  # the same for all tasks, so that an image has one set of features
    suggested_rate = 0.02

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        *,
        seed: int,
        size: str | None = None,
        filters: int | None = None,
        sides: Sequence[int] = (4, 8),
        grid: int = 3,
        threshold: float = 0.5,
        stride: int = 1,
        root: bool = True,
        mirror: bool = True,
        shift: int = 0,
        mirror_predictions: bool = False,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if filters is None:
            filters = filters_for(size or "5k", grid=grid)
        elif size is not None:
            raise ConfigError(f"both size ({size}) and filters ({filters}) are given: give one of them")
        filters, classes, seed = index(filters), index(classes), index(seed)
        encoding: dict[str, Any] = {
            "filters": filters,
            "sides": [index(side) for side in sides],
            "grid": index(grid),
            "threshold": float(threshold),
            "stride": index(stride),
            "root": bool(root),
        }
        self.config = {
            "input_shape": [index(length) for length in input_shape],
            "classes": classes,
            "seed": seed,
            **encoding,
            "mirror": bool(mirror),
            "shift": index(shift),
            "mirror_predictions": bool(mirror_predictions),
            "modulation": modulation,
            "start": start,
            "start_scale": float(start_scale),
        }
        self.encoder = ImageEncoder(input_shape, seed=seed, **encoding)
        self.input_shape = self.encoder.input_shape
        self.classes = classes
        self.mirror, self.mirror_predictions = bool(mirror), bool(mirror_predictions)
        self.changes = _changes(self.mirror, index(shift))
        self.decoder = ModulatedLinear(
            self.encoder.features,
            classes,
            seed=seed,
            name="decoder",
            modulation=modulation,
            start=start,
            start_scale=start_scale,
        )

    def learn_filters(self, images: Images) -> None:
        """Take the filters from unlabelled images `[n, channels, height, width]`, before the first task is learned.

        They are stored once with the model, and are part of its fingerprint.
        """
        self.encoder.learn_filters(images)

    @property
    def encoder_fingerprint(self) -> str:
        return f"{encoder_fingerprint(self.encoder)}{'+mirrored' if self.mirror_predictions else ''}"

    @property
    def copies(self) -> int:
        return len(self.changes)

    def encode(self, x: Tensor) -> Tensor:
        features: Tensor = self.encoder(x)
        if self.mirror_predictions:
            features = (features + self.encoder(x.flip(-1))).mul_(0.5)
        return features

    def encode_copy(self, x: Tensor, number: int) -> Tensor:
        features: Tensor = self.encoder(_changed(x, self.changes[number]))
        return features


Change = tuple[int, int, bool]  # pixels down and right, and whether mirrored


def _changes(mirror: bool, shift: int) -> list[Change]:
    """The copies of a training image that a task learns."""
    if shift < 0:
        raise ConfigError(f"shift must be 0 or a number of pixels, got {shift}")
    changes = [(0, 0, False)] + [(0, 0, True)] * mirror
    if shift:
        changes += [(down, right, mirror and down == right) for down in (-shift, shift) for right in (-shift, shift)]
    return changes


def _changed(x: Tensor, change: Change) -> Tensor:
    down, right, mirrored = change
    if mirrored:
        x = x.flip(-1)
    if down or right:
        height, width = x.shape[-2:]
        rows = (torch.arange(height) - down).clamp(0, height - 1)  # pixels at the edge are repeated
        columns = (torch.arange(width) - right).clamp(0, width - 1)
        x = x.index_select(-2, rows).index_select(-1, columns)
    return x


class ImageStructure(TypedDict, total=False):
    """Arguments of `ImageFlyNet` that the preset "best" sets."""

    mirror_predictions: bool


def best_image_structure() -> ImageStructure:
    """The structure of the preset "best": predictions cost two encodings instead of one, and learn nothing more."""
    return {"mirror_predictions": True}


def filters_for(size: str, *, grid: int = 3) -> int:
    """The number of filters with which a task learns at most as many parameters as the size names.

    >>> filters_for("5k"), filters_for("30k")
    (272, 1664)
    """
    if size not in SIZES:
        raise ConfigError(f'flynet has no size "{size}" for images: choose one of {", ".join(SIZES)}')
    return (SIZES[size] - 1) // (2 * grid * grid) // STEP * STEP
