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
from crwn.models.encoded import DecoderHead, EncodedNetwork, repeated
from crwn.models.image_encoder import ImageEncoder, encoder_fingerprint
from crwn.models.second_layer import GRID

SIZES = {"5k": 5_000, "10k": 10_000, "20k": 20_000, "30k": 30_000}  # by the number of learned parameters, at most
BEST_GAINS = {"5k": 1, "10k": 4, "20k": 4, "30k": 4}  # of the preset "best", for at least five classes
BEST_COLOURS = {"5k": 32, "10k": 16, "20k": 32, "30k": 24}
BEST_SPREAD = {"10k": 0.7, "20k": 0.7, "30k": 0.7}
BEST_SECOND = {"30k": 576}
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
        sides, grid, threshold, stride, colours, root, spread, second: as for `ImageEncoder`.
        gains: how many numbers a task learns for every feature: the decoder sees each feature so many times, every time
            with frozen weights of its own. With one less than it has classes, a task can learn any linear classifier.
        mirror: a task learns every training image and its mirror image.
        shift: if not 0, a task also learns four copies of every training image that are shifted by so many pixels
            along both sides, two of them mirrored.
        mirror_predictions: predictions use the average of the features of an image and of its mirror image.
        symmetric: learning uses that average too, in the place of mirrored copies, so that a task has half the rows.
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
        colours: int = 0,
        root: bool = True,
        spread: float = 0.0,
        second: int = 0,
        gains: int = 1,
        mirror: bool = True,
        shift: int = 0,
        mirror_predictions: bool = False,
        symmetric: bool = False,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if gains < 1:
            raise ConfigError(f"gains must be at least 1, got {gains}")
        if filters is None:
            filters = filters_for(size or "5k", grid=grid, gains=gains) - colours
        elif size is not None:
            raise ConfigError(f"both size ({size}) and filters ({filters}) are given: give one of them")
        filters, classes, seed, self.gains = index(filters), index(classes), index(seed), index(gains)
        encoding: dict[str, Any] = {
            "filters": filters,
            "sides": [index(side) for side in sides],
            "grid": index(grid),
            "threshold": float(threshold),
            "stride": index(stride),
            "root": bool(root),
        }
        # Only where they are used: folders of models without them keep their fingerprints.
        if colours:
            encoding["colours"] = index(colours)
        encoding |= {"spread": float(spread)} if spread else {}
        encoding |= {"second": index(second)} if second else {}
        added: dict[str, Any] = {"gains": self.gains} if gains > 1 else {}
        added |= {"symmetric": True} if symmetric else {}
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
            **added,
        }
        self.encoder = ImageEncoder(input_shape, seed=seed, **encoding)
        self.input_shape = self.encoder.input_shape
        self.classes = classes
        self.mirror, self.symmetric = bool(mirror), bool(symmetric)
        self.mirror_predictions = bool(mirror_predictions) or self.symmetric
        self.changes = _changes(self.mirror and not self.symmetric, index(shift))
        self.decoder = ModulatedLinear(
            self.gains * self.encoder.features,
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
    def features(self) -> int:
        return self.encoder.features

    @property
    def head(self) -> DecoderHead:
        return DecoderHead(self.decoder, suggested_rate=self.suggested_rate, gains=self.gains)

    @property
    def encoder_fingerprint(self) -> str:
        return f"{encoder_fingerprint(self.encoder)}{'+mirrored' if self.mirror_predictions else ''}"

    @property
    def copies(self) -> int:
        return len(self.changes)

    @property
    def copies_key(self) -> str:
        return f"{self.changes}{' averaged' if self.symmetric else ''}"

    def encode(self, x: Tensor) -> Tensor:
        return self._features(x, averaged=self.mirror_predictions)

    def encode_copy(self, x: Tensor, number: int) -> Tensor:
        return self._features(_changed(x, self.changes[number]), averaged=self.symmetric)

    def hidden(self, x: Tensor) -> Tensor:
        return repeated(self.encode(x), self.gains)

    def _features(self, x: Tensor, *, averaged: bool) -> Tensor:
        features: Tensor = self.encoder(x)
        return (features + self.encoder(x.flip(-1))).mul_(0.5) if averaged else features


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

    filters: int
    sides: tuple[int, ...]
    colours: int
    spread: float
    second: int
    gains: int
    symmetric: bool


def best_image_structure(size: str, classes: int) -> ImageStructure:
    """The structure of the preset "best" for a size: from 10k on, as many gains as make a decoder any linear one.

    >>> best_image_structure("20k", classes=5)
    {'filters': 240, 'sides': (3, 4, 8), 'colours': 32, 'gains': 4, 'symmetric': True, 'spread': 0.7}
    >>> best_image_structure("30k", classes=5)
    {'filters': 136, 'sides': (3, 4, 8), 'colours': 24, 'gains': 4, 'symmetric': True, 'spread': 0.7, 'second': 576}
    """
    gains = max(1, min(BEST_GAINS.get(size, 1), classes - 1))
    colours, second = BEST_COLOURS.get(size, 0), BEST_SECOND.get(size, 0)
    best: ImageStructure = {
        "filters": filters_for(size, gains=gains, others=2 * GRID * GRID * second) - colours,
        "sides": (3, 4, 8),
        "colours": colours,
        "gains": gains,
        "symmetric": True,
    }
    best |= {"spread": BEST_SPREAD[size]} if size in BEST_SPREAD else {}
    best |= {"second": second} if second else {}
    return best


def filters_for(size: str, *, grid: int = 3, gains: int = 1, others: int = 0) -> int:
    """The number of filters with which a task learns at most as many parameters as the size names.

    Args:
        others: features that are no filters'.

    >>> filters_for("5k"), filters_for("30k"), filters_for("20k", gains=4)
    (272, 1664, 272)
    """
    if size not in SIZES:
        raise ConfigError(f'flynet has no size "{size}" for images: choose one of {", ".join(SIZES)}')
    return ((SIZES[size] - 1) // gains - others) // (2 * grid * grid) // STEP * STEP
