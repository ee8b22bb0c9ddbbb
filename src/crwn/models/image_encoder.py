"""The image encoder: frozen filters at every place of an image, a two-sided threshold, averages over a grid.

Nothing in it is learned and nothing has a context, so an image's features are the same for all tasks and epochs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers.weights.dead_leaves import dead_leaves
from crwn.layers.weights.filters import FilterBank, Images, standardized
from crwn.models.colour_bank import ColourBank
from crwn.models.frozen_call import frozen_call
from crwn.models.image_places import checked_shape, deviations, fitted_pictures, pool, windows
from crwn.models.second_layer import FINE, SecondLayer
from crwn.models.second_layer import SPREAD as FINE_SPREAD
from crwn.models.trained import set_trained

WORKING_BYTES = 2 * 2**20  # of responses that a thread computes at once: they stay in its core's cache
ROOT_FLOOR = 1e-3  # added under roots: near 0 they would enlarge rounding errors
LARGE_SIDE = 48  # images with larger sides are averaged down to less than this
PICTURES_MEASURED = 128  # for the mean and deviation of the features


class ImageEncoder(nn.Module):
    """Features of images: for every filter and cell of the grid the mean of `relu(y - t)` and of `relu(-y - t)`.

    `y` is the response of a filter to the patch at one place, `w . (p - mean(p)) / sqrt(var(p) + eps)` with a whitened
    `w` (see `FilterBank`). Features have mean 0 and deviation 1 on the pictures the filters come from.

    Args:
        input_shape: `(channels, height, width)`.
        filters: number of filters, divided evenly among the sides.
        sides: sides of the filters in pixels.
        grid: the image is divided into `grid x grid` cells.
        threshold: t, in deviations of a response; larger is sparser.
        stride: pixels between places.
        colours: number of colours whose presence in every cell is a feature too (see `ColourBank`).
        root: whether features are square roots of the averages, which brings rare large ones closer to the others.
        spread: 0 for cells that share no pixel; else the deviation of Gaussian windows around the middles of the cells,
            in sides of a cell, so that a feature changes little when what it found is moved a little.
        second: number of filters of a second layer, whose features stand beside those of the first (see `SecondLayer`).
        seed: draws the pictures and chooses the patches.

    Raises:
        ConfigError: a setting is impossible, or the images are too small for it.
        DataError: images of another shape.
    """

    centre: Tensor  # [features]
    scale: Tensor  # [features]

    def __init__(
        self,
        input_shape: Sequence[int],
        *,
        filters: int,
        sides: Sequence[int] = (4, 8),
        grid: int = 3,
        threshold: float = 0.5,
        stride: int = 1,
        colours: int = 0,
        root: bool = True,
        spread: float = 0.0,
        second: int = 0,
        seed: int,
    ) -> None:
        super().__init__()
        self.input_shape = checked_shape(input_shape)
        self.grid, self.threshold, self.stride, self.root, self.seed = grid, threshold, stride, root, seed
        self.spread = spread
        channels, *size = self.input_shape
        self.shrink = max(1, math.ceil(max(size) / LARGE_SIDE))
        self.size = (size[0] // self.shrink, size[1] // self.shrink)
        for name, value in (("grid", grid), ("stride", stride), ("filters", filters // max(1, len(sides)))):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        for name, value in (("colours", colours), ("second", second)):
            if value < 0:
                raise ConfigError(f"{name} must be 0 or their number, got {value}")
        if not 0 <= spread < math.inf:
            raise ConfigError(f"spread must be 0 or the width of the windows in sides of a cell, got {spread}")
        if not sides or min(sides) < 2:
            raise ConfigError(f"sides of filters must be at least 2 pixels, got {tuple(sides)}")
        needed = max(sides) + (grid - 1) * stride
        if min(self.size) < needed:
            reduced = f" (averaged down by {self.shrink})" if self.shrink > 1 else ""
            raise ConfigError(
                f"images of {size[0]} x {size[1]} pixels{reduced} are too small for filters of {max(sides)} and a grid "
                f"of {grid}: they need {needed} x {needed}; enlarge them, or give smaller filters"
            )
        pictures, self.fingerprint = dead_leaves(channels, seed=seed, name="encoder")
        shares = [filters // len(sides) + (at < filters % len(sides)) for at in range(len(sides))]
        self.banks = nn.ModuleList(
            FilterBank(side, count, channels, pictures=pictures, seed=seed, name="encoder")
            for side, count in zip(sides, shares, strict=True)
        )
        self.second: SecondLayer | None = None
        if second:
            channels_seen = 2 * (filters + colours)
            self.second = SecondLayer(
                second, channels_seen, threshold=threshold, floor=ROOT_FLOOR, seed=seed, name="encoder"
            )
        for at, side in enumerate(sides):
            self.register_buffer(f"cells{at}", self._windows(self.places(side)), persistent=False)
        self.colours: ColourBank | None = None
        if colours:
            self.colours = ColourBank(colours, channels, pictures=pictures, seed=seed, name="encoder")
            if spread or second:
                self.register_buffer("colour_cells", self._windows(self.size), persistent=False)
        self.features = sum(2 * cells * count for cells, count in self.blocks)
        self.register_buffer("centre", torch.zeros(self.features), persistent=False)
        self.register_buffer("scale", torch.ones(self.features), persistent=False)
        self._measure(pictures)

    def places(self, side: int) -> tuple[int, int]:
        """How many places a filter of this side has, down and across."""
        return (self.size[0] - side) // self.stride + 1, (self.size[1] - side) // self.stride + 1

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Windows and filters of every bank, of the colours and of the second layer, in the order of the features.

        The features of each are `[2, windows, filters]`.
        """
        first = [bank.count for bank in self._banks()] + ([] if self.colours is None else [self.colours.count])
        blocks = [(self.grid * self.grid, count) for count in first]
        return blocks if self.second is None else [*blocks, (len(self.second.over), self.second.count)]

    @property
    def multiplications(self) -> int:
        """Multiplications with filters per image."""
        first = sum(math.prod(self.places(bank.side)) * bank.weight.numel() for bank in self._banks())
        return first if self.second is None else first + self.second.multiplications

    def learn_filters(self, images: Images) -> None:
        """Take the filters from unlabelled images `[n, channels, height, width]`; they are stored with the model.

        Contexts learned with the filters from the seed do not fit afterwards: the fingerprint is another.
        """
        if images.ndim != 4 or images.shape[1] != self.input_shape[0] or not len(images):
            raise DataError(f"images for filters have shape {images.shape}, expected [n, {self.input_shape[0]}, h, w]")
        pictures = self.shrunk(torch.from_numpy(np.array(images, dtype=np.float32))).numpy()
        made = [
            FilterBank(bank.side, bank.count, bank.channels, pictures=pictures, seed=self.seed, name="own")
            for bank in self._banks()
        ]
        for bank, new in zip(self._banks(), made, strict=True):
            bank.weight.copy_(new.weight)
        self._measure(pictures)
        weights = {f"banks.{at}.weight": bank.weight for at, bank in enumerate(self._banks())}
        if self.second is not None:
            weights |= {f"second.{name}": value for name, value in self.second.measured.items()}
        set_trained(self, weights | {"centre": self.centre, "scale": self.scale})

    def forward(self, x: Tensor) -> Tensor:
        """Features `[..., features]` of standardized images `[..., channels, height, width]`, without gradient."""
        if tuple(x.shape[-3:]) != self.input_shape:
            raise DataError(f"images have shape {tuple(x.shape[-3:])}, this model takes {self.input_shape}")
        return frozen_call(self.encode, x, dims=3)

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """The same for `[images, channels, height, width]`."""
        parts = self._averages(x.to(self.centre.dtype))
        with torch.autocast(x.device.type, enabled=False):  # the second layer is in float32 in any precision
            return self._joined(parts).sub_(self.centre).mul_(self.scale)

    def plain(self, x: Tensor) -> Tensor:
        """`encode` in ordinary operations that torch's exporters know."""
        x = self.shrunk(x)
        parts = []
        for bank, cells in self.parts():
            kernel = bank.weight.view(bank.side, bank.side, bank.channels, bank.count).permute(3, 2, 0, 1)
            y = F.conv2d(x, kernel, stride=self.stride).flatten(2)  # [n, filters, places]
            y = y / deviations(x, bank.side, self.stride)[:, None]
            both = torch.stack([F.relu(y - self.threshold), F.relu(-y - self.threshold)], dim=1)
            parts.append((both @ cells.mT).mT)  # [n, 2, windows, filters]
        return self.standardized(parts + self.colour_averages(x))

    def colour_averages(self, x: Tensor) -> list[Tensor]:
        """The averages of colours `[images, 2, windows, colours]` for shrunk images, alone in a list; or none."""
        if self.colours is None:
            return []
        cells = self.get_buffer("colour_cells") if self.spread or self.second is not None else None
        return [self.colours.averages(x, self.grid, cells)]

    def standardized(self, parts: Sequence[Tensor]) -> Tensor:
        """Features `[images, features]` from averages of banks and colours, each `[images, 2, windows, filters]`."""
        return (self._joined(parts) - self.centre) * self.scale

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Features before they are standardized."""
        cells = self.grid * self.grid
        first = torch.cat([part[:, :, :cells].flatten(1) for part in parts], dim=1)
        first = (first + ROOT_FLOOR).sqrt() if self.root else first
        if self.second is None:
            return first
        return torch.cat([first, self.second(self._fine(parts)).flatten(1)], dim=1)

    def _fine(self, parts: Sequence[Tensor]) -> Tensor:
        """What the second layer takes: averages over fine cells, `[images, cells, channels]`."""
        fine = [part[:, :, self.grid * self.grid :].transpose(1, 2).flatten(2) for part in parts]
        return torch.cat(fine, dim=2)

    def responses(self, x: Tensor) -> Iterator[Tensor]:
        """Responses `[images, filters, down, across]` of every filter bank, for pictures of what the encoder sees."""
        x = self.shrunk(x)
        for bank in self._banks():
            kernel = bank.weight.view(bank.side, bank.side, bank.channels, bank.count).permute(3, 2, 0, 1)
            y = F.conv2d(x, kernel, stride=self.stride)
            yield y / deviations(x, bank.side, self.stride).view(len(x), 1, *y.shape[2:])

    def _averages(self, x: Tensor) -> list[Tensor]:
        """The averages of banks and colours over windows, each `[images, 2, windows, filters]`.

        With s the local deviation, `relu(y / s - t) = max(y, t s) / s - t`: responses are compared with `t s` and the
        division is part of the average, so every response is read twice and divided never.
        """
        x = self.shrunk(x)
        flat = x.permute(0, 2, 3, 1).contiguous()  # channels innermost: a row of a patch is one piece of memory
        if torch.is_autocast_enabled(x.device.type):  # standardized bytes are bfloat16 numbers: nothing is rounded
            flat = flat.bfloat16()
        parts = []
        for bank, cells in self.parts():
            out = x.new_empty(len(x), 2, len(cells), bank.count)
            local = deviations(x, bank.side, self.stride)  # [images, places]
            one = local.shape[1] * bank.count * flat.element_size()  # bytes of the responses to one image
            at_once = max(1, torch.get_num_threads() * WORKING_BYTES // one)
            for at in range(0, len(x), at_once):
                some = slice(at, at + at_once)
                pool(flat[some], local[some], bank, cells, out[some], threshold=self.threshold, stride=self.stride)
            parts.append(out)
        with torch.autocast(x.device.type, enabled=False):
            return parts + self.colour_averages(x)

    def shrunk(self, x: Tensor) -> Tensor:
        """Images as the filters see them: large ones averaged down."""
        return F.avg_pool2d(x, self.shrink) if self.shrink > 1 else x

    def _windows(self, places: tuple[int, int]) -> Tensor:
        """Windows of the features, and behind them the fine cells of the second layer where there is one."""
        made = windows(places, self.grid, self.spread)
        return made if self.second is None else torch.cat([made, windows(places, FINE, FINE_SPREAD)])

    def _banks(self) -> Iterator[FilterBank]:
        for bank in self.banks:
            assert isinstance(bank, FilterBank)
            yield bank

    def parts(self) -> Iterator[tuple[FilterBank, Tensor]]:
        """Every filter bank with the weights of places in each window, `[windows, places]`."""
        for at, bank in enumerate(self._banks()):
            yield bank, self.get_buffer(f"cells{at}")

    @torch.no_grad()
    def _measure(self, pictures: Images) -> None:
        """Mean and deviation of the features of pictures: one pair per filter and sign for all cells alike."""
        fitted = fitted_pictures(standardized(pictures)[:PICTURES_MEASURED], self.input_shape, self.shrink)
        parts = self._averages(fitted.to(self.centre.dtype))
        if self.second is not None:
            self.second.measure(self._fine(parts))
        measured = self._joined(parts)
        start = 0
        for cells, count in self.blocks:
            stop = start + 2 * cells * count
            part = measured[:, start:stop].reshape(-1, 2, cells, count)
            mean = part.mean(dim=(0, 2)).expand(cells, 2, count).transpose(0, 1)
            deviation = part.std(dim=(0, 2), correction=0).expand(cells, 2, count).transpose(0, 1)
            self.centre[start:stop] = mean.reshape(-1)
            self.scale[start:stop] = 1 / deviation.reshape(-1).clamp_min(1e-3)
            start = stop

    def extra_repr(self) -> str:
        return f"{' x '.join(map(str, self.input_shape))} -> {self.features:,} features, grid {self.grid} x {self.grid}"


def encoder_fingerprint(encoder: ImageEncoder) -> str:
    """SHA-256 of what determines the features: the settings, and the integers or stored filters behind them."""
    settings = [encoder.input_shape, encoder.grid, encoder.threshold, encoder.stride, encoder.root]
    settings += [{"spread": encoder.spread}] if encoder.spread else []  # encoders without keep their fingerprints
    kinds = ImageEncoder | FilterBank | ColourBank | SecondLayer
    parts = [module.fingerprint for module in encoder.modules() if isinstance(module, kinds)]
    sides = [(bank.side, bank.count) for bank in encoder.banks if isinstance(bank, FilterBank)]
    return hashlib.sha256(json.dumps([settings, sides, parts]).encode()).hexdigest()
