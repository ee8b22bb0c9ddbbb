"""Dead-leaves pictures: shapes of all sizes that cover each other, with the statistics of photographs, from a seed.

Natural images have edges at all scales because objects occlude each other. Pictures made of nothing else have the
same statistics of small patches, so filters and whitening measured on them fit photographs without any photograph.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from crwn.layers.weights.drawing import integers

PICTURES = 96
SIDE = 48
LEAVES = 160  # per picture: they leave hardly any background
SMALLEST, LARGEST = 1.5, 24.0  # radius of a leaf in pixels; density falls with the third power of the radius

Pictures = npt.NDArray[np.uint8]


def dead_leaves(channels: int, *, seed: int, name: str = "") -> tuple[Pictures, str]:
    """Pictures `[PICTURES, channels, SIDE, SIDE]` and the SHA-256 of their pixels.

    Everything is integers, or float64 arithmetic that every machine rounds alike, so the same seed draws the same
    pictures everywhere. Grey pictures are the colour ones averaged.

    >>> dead_leaves(3, seed=0)[0].shape
    (96, 3, 48, 48)
    """
    drawn = integers(PICTURES * LEAVES * 9, seed=seed, name=f"dead leaves:{name}", bits=32)
    shares = drawn.reshape(9, LEAVES, PICTURES).astype(np.float64) / 2**32
    owner = _topmost(shares[:5])
    palette = _colours(shares[5:])  # [LEAVES, PICTURES, 3]
    painted = palette[owner, np.arange(PICTURES)[:, None, None]]  # [PICTURES, SIDE, SIDE, 3]
    blurred = _blurred(np.moveaxis(painted, -1, 1))
    if channels == 1:
        blurred = blurred.sum(axis=1, keepdims=True) // 3
    elif channels != 3:
        repeats = -(-channels // 3)
        blurred = np.tile(blurred, (1, repeats, 1, 1))[:, :channels]
    pictures = np.ascontiguousarray(blurred.astype(np.uint8))
    return pictures, hashlib.sha256(pictures.tobytes()).hexdigest()


def _topmost(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The leaf seen at every pixel, `[PICTURES, SIDE, SIDE]`, from five numbers per leaf: place, size and form."""
    down, right, size, form, aspect = shares  # each [LEAVES, PICTURES]
    ratio = (SMALLEST / LARGEST) ** 2
    radius = SMALLEST / np.sqrt(1.0 - size * (1.0 - ratio))  # inverse of the distribution with density r^-3
    # Everything below in integer sixteenths of a pixel.
    centre = np.stack([down, right]) * (SIDE + 2 * SMALLEST) - SMALLEST
    centre16, radius16 = np.rint(centre * 16).astype(np.int64), np.rint(radius * 16).astype(np.int64)
    height16 = np.maximum(np.rint(radius * (0.3 + 0.7 * aspect) * 16).astype(np.int64), 8)
    is_disc = form < 0.5
    pixels = np.arange(SIDE, dtype=np.int64) * 16 + 8
    owner = np.zeros((PICTURES, SIDE, SIDE), dtype=np.int64)
    for leaf in range(LEAVES):  # later leaves cover earlier ones
        dy = pixels - centre16[0, leaf][:, None]  # [PICTURES, SIDE]
        dx = pixels - centre16[1, leaf][:, None]
        disc = (dy**2)[:, :, None] + (dx**2)[:, None, :] <= (radius16[leaf] ** 2)[:, None, None]
        inside_y, inside_x = abs(dy) <= height16[leaf][:, None], abs(dx) <= radius16[leaf][:, None]
        rectangle = inside_y[:, :, None] & inside_x[:, None, :]
        owner[np.where(is_disc[leaf][:, None, None], disc, rectangle)] = leaf
    return owner


def _colours(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """A colour for every leaf, `[LEAVES, PICTURES, 3]`: lightness varies most, hue around the picture's."""
    light = shares[0] * 220 + 18
    tint = (shares[1:] - 0.5) * 60  # [3, LEAVES, PICTURES]: of the leaf
    base = (shares[1:, :1] - 0.5) * 80  # of the picture: that of its first leaf
    colours = np.rint(np.clip(light + tint + base, 0, 255)).astype(np.int64)
    return np.moveaxis(colours, 0, -1)


def _blurred(pictures: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A blur by (1, 2, 1) / 4 along both sides, in integers: photographs have no edge sharper than their lens."""
    for axis in (2, 3):
        padded = np.pad(pictures, [(1, 1) if at == axis else (0, 0) for at in range(4)], mode="edge")
        left, middle, right = (np.take(padded, range(at, at + SIDE), axis=axis) for at in range(3))
        pictures = (left + 2 * middle + right + 2) // 4
    return pictures
