"""Which colours each part of an image has: what filters cannot tell, because they see no brightness."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers.weights.drawing import gaussian, uniform
from crwn.layers.weights.filters import Images, standardized

WIDEST = 1.5  # of the thresholds, in deviations of a colour's responses
SMALLEST_DEVIATION = 1e-6


class ColourBank(nn.Module):
    """For every colour and cell of a grid the means of `relu(y - t)` and `relu(t - y)`, `y = w . pixel`.

    A colour is a random direction w among the channels, with a random threshold t: together they are a histogram of
    colours without bins. Responses have the deviation 1 on the pictures that the encoder's filters come from.

    Args:
        count, channels: of the colours.
        pictures: `[n, channels, height, width]`, for the deviations.
        seed, name: draw directions and thresholds.
    """

    weight: Tensor  # [count, channels]
    limit: Tensor  # [count, 1, 1]
    fingerprint: str

    def __init__(self, count: int, channels: int, *, pictures: Images, seed: int, name: str) -> None:
        super().__init__()
        self.count = count
        drawn, self.fingerprint = gaussian((count, channels), seed=seed, name=f"colours:{name}", std=1.0)
        pixels = np.moveaxis(standardized(pictures), 1, -1).reshape(-1, channels)
        deviation = (pixels @ drawn.double().numpy().T).std(axis=0)
        scale = torch.from_numpy(np.maximum(deviation, SMALLEST_DEVIATION)).float()
        self.register_buffer("weight", drawn / scale[:, None], persistent=False)
        limit = uniform((count, 1, 1), seed=seed, name=f"colour limits:{name}", bound=WIDEST)
        self.register_buffer("limit", limit, persistent=False)

    def averages(self, x: Tensor, grid: int, windows: Tensor | None = None) -> Tensor:
        """Averages `[images, 2, windows, colours]` for images `[images, channels, height, width]`.

        Args:
            grid: cells per side.
            windows: weights of pixels `[windows, height * width]` instead of cells that share none.
        """
        y = F.conv2d(x, self.weight[:, :, None, None].to(x.dtype)) - self.limit.to(x.dtype)
        both = torch.stack([F.relu(y), F.relu(-y)], dim=1)  # [images, 2, colours, height, width]
        if windows is not None:
            return (both.flatten(3) @ windows.mT.to(x.dtype)).mT
        cells = F.adaptive_avg_pool2d(both.flatten(1, 2), grid).reshape(-1, 2, self.count, grid * grid)
        return cells.mT

    def extra_repr(self) -> str:
        return f"{self.count} colours of {self.weight.shape[1]} channels"
