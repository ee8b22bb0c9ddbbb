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
from crwn.layers.weights.filters import CONTRAST, FilterBank, Images, standardized
from crwn.models.colour_bank import ColourBank
from crwn.models.frozen_call import frozen_call
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
        seed: int,
    ) -> None:
        super().__init__()
        self.input_shape = _checked_shape(input_shape)
        self.grid, self.threshold, self.stride, self.root, self.seed = grid, threshold, stride, root, seed
        channels, *size = self.input_shape
        self.shrink = max(1, math.ceil(max(size) / LARGE_SIDE))
        self.size = (size[0] // self.shrink, size[1] // self.shrink)
        for name, value in (("grid", grid), ("stride", stride), ("filters", filters // max(1, len(sides)))):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        if colours < 0:
            raise ConfigError(f"colours must be 0 or their number, got {colours}")
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
        for at, side in enumerate(sides):
            self.register_buffer(f"cells{at}", _cells(self.places(side), grid), persistent=False)
        self.colours: ColourBank | None = None
        if colours:
            self.colours = ColourBank(colours, channels, pictures=pictures, seed=seed, name="encoder")
        self.features = 2 * (filters + colours) * grid * grid
        self.register_buffer("centre", torch.zeros(self.features), persistent=False)
        self.register_buffer("scale", torch.ones(self.features), persistent=False)
        self._measure(pictures)

    def places(self, side: int) -> tuple[int, int]:
        """How many places a filter of this side has, down and across."""
        return (self.size[0] - side) // self.stride + 1, (self.size[1] - side) // self.stride + 1

    @property
    def counts(self) -> list[int]:
        """How many filters each bank has, and colours: features are in this order, each `[2, cells, count]`."""
        return [bank.count for bank in self._banks()] + ([] if self.colours is None else [self.colours.count])

    @property
    def multiplications(self) -> int:
        """Multiplications with filters per image."""
        return sum(math.prod(self.places(bank.side)) * bank.weight.numel() for bank in self._banks())

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
        set_trained(self, weights | {"centre": self.centre, "scale": self.scale})

    def forward(self, x: Tensor) -> Tensor:
        """Features `[..., features]` of standardized images `[..., channels, height, width]`, without gradient."""
        if tuple(x.shape[-3:]) != self.input_shape:
            raise DataError(f"images have shape {tuple(x.shape[-3:])}, this model takes {self.input_shape}")
        return frozen_call(self.encode, x, dims=3)

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """The same for `[images, channels, height, width]`."""
        return self._averages(x.to(self.centre.dtype)).sub_(self.centre).mul_(self.scale)

    def plain(self, x: Tensor) -> Tensor:
        """`encode` in ordinary operations that torch's exporters know."""
        x = self.shrunk(x)
        parts = []
        for bank, cells in self.parts():
            kernel = bank.weight.view(bank.side, bank.side, bank.channels, bank.count).permute(3, 2, 0, 1)
            y = F.conv2d(x, kernel, stride=self.stride).flatten(2)  # [n, filters, places]
            y = y / _deviations(x, bank.side, self.stride)[:, None]
            both = torch.stack([F.relu(y - self.threshold), F.relu(-y - self.threshold)], dim=1)
            parts.append((both @ cells.mT).mT.flatten(1))  # [n, 2, cells, filters]
        if self.colours is not None:
            parts.append(self.colours.averages(x, self.grid))
        return self.standardized(torch.cat(parts, dim=1))

    def standardized(self, averages: Tensor) -> Tensor:
        """Features from the averages of responses over cells, `[images, features]`."""
        return (((averages + ROOT_FLOOR).sqrt() if self.root else averages) - self.centre) * self.scale

    def responses(self, x: Tensor) -> Iterator[Tensor]:
        """Responses `[images, filters, down, across]` of every filter bank, for pictures of what the encoder sees."""
        x = self.shrunk(x)
        for bank in self._banks():
            kernel = bank.weight.view(bank.side, bank.side, bank.channels, bank.count).permute(3, 2, 0, 1)
            y = F.conv2d(x, kernel, stride=self.stride)
            yield y / _deviations(x, bank.side, self.stride).view(len(x), 1, *y.shape[2:])

    def _averages(self, x: Tensor) -> Tensor:
        """Features before they are standardized, `[images, features]`.

        With s the local deviation, `relu(y / s - t) = max(y, t s) / s - t`: responses are compared with `t s` and the
        division is part of the average, so every response is read twice and divided never.
        """
        x = self.shrunk(x)
        flat = x.permute(0, 2, 3, 1).contiguous()  # channels innermost: a row of a patch is one piece of memory
        if torch.is_autocast_enabled(x.device.type):  # standardized bytes are bfloat16 numbers: nothing is rounded
            flat = flat.bfloat16()
        out = x.new_empty(len(x), self.features)
        start = 0
        for bank, cells in self.parts():
            stop = start + 2 * len(cells) * bank.count
            part = out[:, start:stop].view(-1, 2, len(cells), bank.count)
            deviations = _deviations(x, bank.side, self.stride)  # [images, places]
            one = deviations.shape[1] * bank.count * flat.element_size()  # bytes of the responses to one image
            at_once = max(1, torch.get_num_threads() * WORKING_BYTES // one)
            for at in range(0, len(x), at_once):
                some = slice(at, at + at_once)
                self._pool(flat[some], deviations[some], bank, cells, part[some])
            start = stop
        if self.colours is not None:
            with torch.autocast(x.device.type, enabled=False):
                out[:, start:] = self.colours.averages(x, self.grid)
        return out.add_(ROOT_FLOOR).sqrt_() if self.root else out

    def _pool(self, flat: Tensor, deviations: Tensor, bank: FilterBank, cells: Tensor, out: Tensor) -> None:
        count, places = deviations.shape
        patches = _patches(flat, bank.side, self.stride).reshape(count * places, -1)
        limit = (self.threshold * deviations)[:, :, None].to(flat.dtype)
        weights = (cells / deviations[:, None]).to(flat.dtype)  # [images, cells, places]
        y = (patches @ bank.rounded(flat.dtype)).view(count, places, bank.count)
        if flat.dtype == torch.bfloat16:  # a difference of averages would lose the few digits there are
            larger = torch.sub(y, limit).relu_()
            out[:, 0] = torch.bmm(weights, larger)
            out[:, 1] = torch.bmm(weights, torch.add(y, limit, out=larger).neg_().relu_())
            return
        larger = torch.maximum(y, limit)
        out[:, 0] = torch.bmm(weights, larger).sub_(self.threshold)
        smaller = torch.minimum(y, limit.neg_(), out=larger)
        out[:, 1] = torch.bmm(weights, smaller).neg_().sub_(self.threshold)
        out.clamp_min_(0.0)  # averages of zeros are zero but for rounding

    def shrunk(self, x: Tensor) -> Tensor:
        """Images as the filters see them: large ones averaged down."""
        return F.avg_pool2d(x, self.shrink) if self.shrink > 1 else x

    def _banks(self) -> Iterator[FilterBank]:
        for bank in self.banks:
            assert isinstance(bank, FilterBank)
            yield bank

    def parts(self) -> Iterator[tuple[FilterBank, Tensor]]:
        """Every filter bank with the places that each cell averages, `[cells, places]`."""
        for at, bank in enumerate(self._banks()):
            yield bank, self.get_buffer(f"cells{at}")

    @torch.no_grad()
    def _measure(self, pictures: Images) -> None:
        """Mean and deviation of the features of pictures: one pair per filter and sign for all cells alike."""
        some = standardized(pictures)[:PICTURES_MEASURED]
        height, width = self.size
        rows, columns = (np.arange(size) % have for size, have in zip(self.size, some.shape[2:], strict=True))
        crops = torch.from_numpy(np.ascontiguousarray(some[:, :, rows[:, None], columns]).astype(np.float32))
        enlarged = crops.repeat_interleave(self.shrink, 2).repeat_interleave(self.shrink, 3)
        fitted = F.pad(
            enlarged, (0, self.input_shape[2] - width * self.shrink, 0, self.input_shape[1] - height * self.shrink)
        )
        measured = self._averages(fitted.to(self.centre.dtype))
        start, cells = 0, self.grid * self.grid
        for count in self.counts:
            stop = start + 2 * cells * count
            part = measured[:, start:stop].reshape(-1, 2, cells, count)
            mean = part.mean(dim=(0, 2)).expand(cells, 2, count).transpose(0, 1)
            deviation = part.std(dim=(0, 2), correction=0).expand(cells, 2, count).transpose(0, 1)
            self.centre[start:stop] = mean.reshape(-1)
            self.scale[start:stop] = 1 / deviation.reshape(-1).clamp_min(1e-3)
            start = stop

    def extra_repr(self) -> str:
        return f"{' x '.join(map(str, self.input_shape))} -> {self.features:,} features, grid {self.grid} x {self.grid}"


def _checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape) < 1:
        raise ConfigError(f"images have the shape (channels, height, width), got {tuple(shape)}")
    channels, height, width = shape
    return int(channels), int(height), int(width)


def _patches(flat: Tensor, side: int, stride: int) -> Tensor:
    """All patches `[images, down, across, side, side * channels]` as a view of images with channels innermost."""
    count, height, width, channels = flat.shape
    down, across = (height - side) // stride + 1, (width - side) // stride + 1
    row = width * channels
    return flat.as_strided(
        (count, down, across, side, side * channels),
        (height * row, stride * row, stride * channels, row, 1),
        flat.storage_offset(),
    )


def _deviations(x: Tensor, side: int, stride: int) -> Tensor:
    """`sqrt(var + CONTRAST)` of every patch over its pixels and channels, `[images, places]`."""
    mean = F.avg_pool2d(x.mean(dim=1, keepdim=True), side, stride)
    square = F.avg_pool2d(x.square().mean(dim=1, keepdim=True), side, stride)
    return (square - mean.square()).clamp_min(0.0).add(CONTRAST).sqrt().flatten(1)


def _cells(places: tuple[int, int], grid: int) -> Tensor:
    """`[cells, places]`: which places each cell averages, as torch's adaptive pooling divides them."""
    down, across = (
        F.adaptive_avg_pool2d(torch.eye(size).view(size, 1, 1, size), (1, grid))[:, 0, 0].T for size in places
    )  # each [grid, size]
    return torch.einsum("ai,bj->abij", down, across).reshape(grid * grid, -1).contiguous()


def encoder_fingerprint(encoder: ImageEncoder) -> str:
    """SHA-256 of what determines the features: the settings, and the integers or stored filters behind them."""
    settings = [encoder.input_shape, encoder.grid, encoder.threshold, encoder.stride, encoder.root]
    kinds = ImageEncoder | FilterBank | ColourBank
    parts = [module.fingerprint for module in encoder.modules() if isinstance(module, kinds)]
    sides = [(bank.side, bank.count) for bank in encoder.banks if isinstance(bank, FilterBank)]
    return hashlib.sha256(json.dumps([settings, sides, parts]).encode()).hexdigest()
