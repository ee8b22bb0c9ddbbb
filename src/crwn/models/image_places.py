"""Places of an image: the patches there, their deviations, and the windows over which responses are averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.errors import ConfigError
from crwn.layers.weights.filters import CONTRAST, FilterBank


def patches(flat: Tensor, side: int, stride: int) -> Tensor:
    """All patches `[images, down, across, side, side * channels]` as a view of images with channels innermost."""
    count, height, width, channels = flat.shape
    down, across = (height - side) // stride + 1, (width - side) // stride + 1
    row = width * channels
    return flat.as_strided(
        (count, down, across, side, side * channels),
        (height * row, stride * row, stride * channels, row, 1),
        flat.storage_offset(),
    )


def deviations(x: Tensor, side: int, stride: int) -> Tensor:
    """`sqrt(var + CONTRAST)` of every patch over its pixels and channels, `[images, places]`."""
    mean = F.avg_pool2d(x.mean(dim=1, keepdim=True), side, stride)
    square = F.avg_pool2d(x.square().mean(dim=1, keepdim=True), side, stride)
    return (square - mean.square()).clamp_min(0.0).add(CONTRAST).sqrt().flatten(1)


def windows(places: tuple[int, int], grid: int, spread: float = 0.0) -> Tensor:
    """`[grid * grid, places]`: the weight of every place in every window; the weights of a window add up to 1.

    Args:
        places: how many there are, down and across.
        grid: windows per side.
        spread: 0 divides the places into cells as torch's adaptive pooling does. Else the deviation of Gaussian
            windows around the middles of the cells, in sides of a cell: neighbouring windows overlap.

    >>> windows((1, 4), 2)[:2]
    tensor([[0.5000, 0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.5000, 0.5000]])
    >>> windows((1, 4), 2, spread=0.5)[0]
    tensor([0.4136, 0.4136, 0.1522, 0.0206])
    """
    down, across = (_cells(size, grid) if spread == 0 else _gaussians(size, grid, spread) for size in places)
    return torch.einsum("ai,bj->abij", down, across).reshape(grid * grid, -1).contiguous()


def _cells(size: int, grid: int) -> Tensor:
    return F.adaptive_avg_pool2d(torch.eye(size).view(size, 1, 1, size), (1, grid))[:, 0, 0].T


def _gaussians(size: int, grid: int, spread: float) -> Tensor:
    at = (torch.arange(size, dtype=torch.float64) + 0.5) / size * grid
    middle = torch.arange(grid, dtype=torch.float64) + 0.5
    weight = torch.exp(-((at - middle[:, None]) ** 2) / (2 * spread**2))
    return (weight / weight.sum(dim=1, keepdim=True)).float()


def pool(
    flat: Tensor, local: Tensor, bank: FilterBank, cells: Tensor, out: Tensor, *, threshold: float, stride: int
) -> None:
    """Write the averages of `relu(y - t)` and of `relu(-y - t)` over windows to `out`, `[images, 2, windows, filters]`.

    Args:
        flat: images `[images, height, width, channels]`.
        local: the deviation at every place, `[images, places]`.
        cells: weights of places in each window.
    """
    count, places = local.shape
    rows = patches(flat, bank.side, stride).reshape(count * places, -1)
    limit = (threshold * local)[:, :, None].to(flat.dtype)
    weights = (cells / local[:, None]).to(flat.dtype)  # [images, windows, places]
    y = (rows @ bank.rounded(flat.dtype)).view(count, places, bank.count)
    if flat.dtype == torch.bfloat16:  # a difference of averages would lose the few digits there are
        larger = torch.sub(y, limit).relu_()
        out[:, 0] = torch.bmm(weights, larger)
        out[:, 1] = torch.bmm(weights, torch.add(y, limit, out=larger).neg_().relu_())
        return
    larger = torch.maximum(y, limit)
    out[:, 0] = torch.bmm(weights, larger).sub_(threshold)
    smaller = torch.minimum(y, limit.neg_(), out=larger)
    out[:, 1] = torch.bmm(weights, smaller).neg_().sub_(threshold)
    out.clamp_min_(0.0)  # averages of zeros are zero but for rounding


def checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width of images; ConfigError where they are not three positive numbers."""
    if len(shape) != 3 or min(shape) < 1:
        raise ConfigError(f"images have the shape (channels, height, width), got {tuple(shape)}")
    channels, height, width = shape
    return int(channels), int(height), int(width)


def fitted_pictures(pictures: npt.NDArray[np.float64], shape: tuple[int, int, int], shrink: int) -> Tensor:
    """Pictures `[n, channels, h, w]` repeated or cut to the size of images that are averaged down by `shrink`."""
    _, height, width = shape
    rows, columns = (np.arange(size // shrink) % have for size, have in zip(shape[1:], pictures.shape[2:], strict=True))
    crops = torch.from_numpy(np.ascontiguousarray(pictures[:, :, rows[:, None], columns]).astype(np.float32))
    enlarged = crops.repeat_interleave(shrink, 2).repeat_interleave(shrink, 3)
    return F.pad(enlarged, (0, width - enlarged.shape[3], 0, height - enlarged.shape[2]))
