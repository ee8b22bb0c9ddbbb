"""Filters of the image encoder: whitened patches of dead-leaves pictures, or of a user's images."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers.weights.drawing import integers

CONTRAST = 0.0025  # added to the variance of a patch of standardized pixels: the noise of 8-bit images
WHITENING = 0.01  # added to the variances of the principal components before they are brought to 1
PATCHES = 40_000  # measured for the whitening
FLAT = 0.02  # variance below which a patch shows nothing and makes no filter

Images = npt.NDArray[np.uint8] | npt.NDArray[np.float32]


class FilterBank(nn.Module):
    """`count` filters of `side x side` pixels: `y = weight @ (patch - mean) / sqrt(var + CONTRAST)`.

    A filter is a whitened patch of a picture, brought to length 1 and multiplied by the whitening matrix, so that it
    applies to the patch itself. Its weights add up to 0, so the mean of the patch need not be subtracted.

    Args:
        side, count, channels: of the filters.
        pictures: `[n, channels, height, width]`, the pictures that patches are taken from.
        seed, name: choose the patches.
    """

    weight: Tensor  # [side * side * channels, count], channels innermost as in images with channels last
    fingerprint: str

    def __init__(self, side: int, count: int, channels: int, *, pictures: Images, seed: int, name: str) -> None:
        super().__init__()
        self.side, self.count, self.channels = side, count, channels
        weight, places = _filters(pictures, side, count, seed=seed, name=name)
        self.fingerprint = hashlib.sha256(places).hexdigest()
        self.register_buffer("weight", weight, persistent=False)

    def rounded(self, dtype: torch.dtype) -> Tensor:
        """The weights in another precision, still adding up to 0: a bright patch without contrast has no response.

        What rounding leaves of a filter's sum is subtracted from its smallest weight, which has the finest steps.
        """
        weight = self.weight.to(dtype)
        if dtype == self.weight.dtype:
            return weight
        smallest = self.weight.abs().argmin(dim=0, keepdim=True)
        rest = weight.float().sum(dim=0, keepdim=True)
        return weight.scatter(0, smallest, (weight.float().gather(0, smallest) - rest).to(dtype))

    def extra_repr(self) -> str:
        return f"{self.count} filters of {self.channels} x {self.side} x {self.side}"


def standardized(pictures: Images) -> npt.NDArray[np.float64]:
    """Pictures with mean 0 and standard deviation 1 over all of them, as model inputs have."""
    values = pictures.astype(np.float64)
    deviation = float(values.std())
    if not np.isfinite(deviation) or deviation < 1e-8:
        raise DataError(
            "the images for the filters are all of one value or not finite: give images that show something"
        )
    scaled: npt.NDArray[np.float64] = (values - values.mean()) / deviation
    return scaled


def _filters(pictures: Images, side: int, count: int, *, seed: int, name: str) -> tuple[Tensor, bytes]:
    """Weights `[side * side * channels, count]`, and the integers that chose their patches."""
    many, _, height, width = pictures.shape
    if min(height, width) < side:
        raise ConfigError(f"filters of {side} x {side} pixels do not fit pictures of {height} x {width}")
    drawn = integers(3 * PATCHES, seed=seed, name=f"patches:{name}:{side}", bits=32).reshape(3, PATCHES)
    most = np.array([many, height - side + 1, width - side + 1], dtype=np.uint64)[:, None]
    places = ((drawn.astype(np.uint64) * most) >> np.uint64(32)).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(standardized(pictures), (side, side), axis=(2, 3))
    patches = np.moveaxis(windows[places[0], :, places[1], places[2]], 1, -1).reshape(PATCHES, -1)
    variance = patches.var(axis=1, keepdims=True)
    patches = (patches - patches.mean(axis=1, keepdims=True)) / np.sqrt(variance + CONTRAST)
    values, vectors = np.linalg.eigh(patches.T @ patches / PATCHES)
    whitening = (vectors / np.sqrt(np.maximum(values, 0) + WHITENING)) @ vectors.T
    shown = np.flatnonzero(variance[:, 0] > FLAT)[:count]
    if len(shown) < count:
        raise DataError(f"only {len(shown)} of {PATCHES} patches show anything, {count} filters need more: add images")
    chosen = patches[shown] @ whitening
    weight = chosen / np.linalg.norm(chosen, axis=1, keepdims=True) @ whitening
    weight -= weight.mean(axis=1, keepdims=True)
    return torch.from_numpy(np.ascontiguousarray(weight.T).astype(np.float32)), drawn.tobytes()
