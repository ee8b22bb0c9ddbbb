"""The second frozen layer of the image encoder: random filters on neighbouring cells of what the first layer found."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers.weights.drawing import gaussian
from crwn.models.image_places import windows

FINE = 8  # cells per side of the image that the first layer is averaged over for this one
SIDE = 2  # cells per side of a filter
GRID = 2  # windows per side in which responses are averaged
SPREAD = 0.5  # of the windows of both, in sides of a cell
SMALLEST = 1e-3


class SecondLayer(nn.Module):
    """For every filter and window the root means of `relu(y - t)` and of `relu(-y - t)`, `y = w . c / |c|`.

    c are the features of `SIDE x SIDE` neighbouring cells among `FINE x FINE`, standardized; w is Gaussian, from the
    seed. Responses are brought to mean 0 and deviation 1 on the pictures that the encoder's filters come from.

    Args:
        count: number of filters.
        channels: features of one cell.
        threshold: t, in deviations of a response.
        floor: added under roots.
        seed, name: draw the filters.
    """

    weight: Tensor  # [SIDE * SIDE * channels, count]
    centre: Tensor  # [channels]
    scale: Tensor  # [channels]
    mean: Tensor  # [count]
    deviation: Tensor  # [count]
    over: Tensor  # [GRID * GRID, places]
    fingerprint: str

    def __init__(self, count: int, channels: int, *, threshold: float, floor: float, seed: int, name: str) -> None:
        super().__init__()
        self.count, self.threshold, self.floor = count, threshold, floor
        shape = (SIDE * SIDE * channels, count)
        weight, self.fingerprint = gaussian(shape, seed=seed, name=f"second:{name}", std=1.0)
        places = FINE - SIDE + 1
        for label, value in {
            "weight": weight,
            "centre": torch.zeros(channels),
            "scale": torch.ones(channels),
            "mean": torch.zeros(count),
            "deviation": torch.ones(count),
            "over": windows((places, places), GRID, SPREAD),
        }.items():
            self.register_buffer(label, value, persistent=False)

    @property
    def features(self) -> int:
        return 2 * GRID * GRID * self.count

    @property
    def multiplications(self) -> int:
        """Multiplications with filters per image."""
        return (FINE - SIDE + 1) ** 2 * self.weight.numel()

    @property
    def measured(self) -> dict[str, Tensor]:
        """What `measure` sets."""
        return {label: self.get_buffer(label) for label in ("centre", "scale", "mean", "deviation")}

    def forward(self, averages: Tensor) -> Tensor:
        """Features before they are standardized, `[images, 2, windows, filters]`.

        Args:
            averages: of the first layer's responses over fine cells, `[images, FINE * FINE, channels]`.
        """
        y = (self._responses(averages) - self.mean) / self.deviation
        both = torch.stack([F.relu(y - self.threshold), F.relu(-y - self.threshold)], dim=1)
        return (self.over @ both + self.floor).sqrt()

    def measure(self, averages: Tensor) -> None:
        """Take means and deviations of cells and of responses from pictures."""
        cells = (averages + self.floor).sqrt()
        self.centre.copy_(cells.mean(dim=(0, 1)))
        self.scale.copy_(1 / cells.std(dim=(0, 1), correction=0).clamp_min(SMALLEST))
        y = self._responses(averages)
        self.mean.copy_(y.mean(dim=(0, 1)))
        self.deviation.copy_(y.std(dim=(0, 1), correction=0).clamp_min(SMALLEST))

    def _responses(self, averages: Tensor) -> Tensor:
        """`[images, places, filters]`."""
        cells = ((averages + self.floor).sqrt() - self.centre) * self.scale
        grid = cells.view(-1, FINE, FINE, cells.shape[-1])
        places = FINE - SIDE + 1
        parts = [grid[:, i : i + places, j : j + places] for i in range(SIDE) for j in range(SIDE)]
        near = torch.cat(parts, dim=-1).flatten(1, 2)  # [images, places, SIDE * SIDE * channels]
        length = near.square().sum(dim=-1, keepdim=True).add(self.floor).sqrt()
        return (near @ self.weight) / length

    def extra_repr(self) -> str:
        return f"{self.count} filters of {SIDE} x {SIDE} cells"
