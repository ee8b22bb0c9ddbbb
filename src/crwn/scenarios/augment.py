"""Random crops and flips of whole batches of raw images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PAD = 4


def crop_and_flip(batch: Tensor, generator: np.random.Generator, *, pad: int = PAD) -> Tensor:
    """Pad every image with black pixels, crop it to its size at a random position, mirror it with probability 1/2.

    Args:
        batch: raw images `[n, ..., H, W]`.
        generator: draws positions and flips.
        pad: black pixels on every side.
    """
    images = batch.numpy()
    count, (height, width) = len(images), images.shape[-2:]
    padded = np.zeros((*images.shape[:-2], height + 2 * pad, width + 2 * pad), dtype=images.dtype)
    padded[..., pad : pad + height, pad : pad + width] = images
    top, left = generator.integers(0, 2 * pad + 1, size=(2, count))
    mirrored = np.flatnonzero(generator.random(count) < 0.5)
    # All crops of all images as a view; indexing copies only the chosen ones.
    crops = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(-2, -1))
    crops = np.moveaxis(crops, (-4, -3), (1, 2))  # [n, tops, lefts, ..., H, W]
    out = crops[np.arange(count), top, left]
    out[mirrored] = out[mirrored][..., ::-1]
    return torch.from_numpy(out)
