"""Pictures of FlyNet's eye: its filters, those that contexts amplify, and where contexts look in a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crwn.insight.eye import Pixels, amplified, energy, filter_tiles, gaze
from crwn.layers.weights.dead_leaves import dead_leaves
from crwn.layers.weights.filters import standardized
from crwn.models import ImageFlyNet

INK = "#1f2937"
MOST_FILTERS = 256
MOST_TASKS = 12
STRONGEST = 10  # filters shown of every task
PICTURES = 3


def eye_pictures(
    model: ImageFlyNet, contexts: Sequence[Mapping[str, Tensor]], names: Sequence[str], source: str
) -> dict[str, Any]:
    """Figures by file name: `filters`, `amplified` and `gaze`; the last is of dead-leaves pictures from the seed."""
    shown = list(range(0, len(names), math.ceil(len(names) / MOST_TASKS)))
    some, named = [contexts[at] for at in shown], [names[at] for at in shown]
    pictures = seen_pictures(model)
    return {
        "filters": draw_filters(filter_tiles(model.encoder), f"Filters: {source}"),
        "amplified": draw_amplified(model, some, named, f"Filters that each task amplifies most: {source}"),
        "gaze": draw_gaze(model, some, named, pictures, f"Where contexts look in pictures from the seed: {source}"),
    }


def seen_pictures(model: ImageFlyNet, count: int = PICTURES) -> Tensor:
    """Dead-leaves pictures as inputs of the model, `[count, channels, height, width]`."""
    channels, *sides = model.input_shape
    made, _ = dead_leaves(channels, seed=model.config["seed"], name="encoder")
    rows, columns = (
        np.arange(side) * have // max(side, have) for side, have in zip(sides, made.shape[2:], strict=True)
    )
    cut = standardized(made)[:count, :, rows[:, None], columns]
    return torch.from_numpy(np.ascontiguousarray(cut).astype(np.float32))


def draw_filters(tiles: Sequence[Pixels], title: str) -> Any:
    """Draw filters as small images, at most `MOST_FILTERS` of them, spread evenly over all."""
    shown = tiles[:: math.ceil(len(tiles) / MOST_FILTERS)]
    columns = math.ceil(math.sqrt(2 * len(shown)))
    rows = math.ceil(len(shown) / columns)
    figure, grid = _grid(rows, columns, 0.34, title)
    for axes, tile in zip(grid.flat, shown, strict=False):
        _show(axes, tile)
    return figure


def draw_amplified(
    model: ImageFlyNet, contexts: Sequence[Mapping[str, Tensor]], names: Sequence[str], title: str
) -> Any:
    """Draw for every task the filters that it amplifies most, with `amplified` over each."""
    tiles = filter_tiles(model.encoder)
    figure, grid = _grid(len(names), STRONGEST + 1, 0.6, title)
    for line, context, name in zip(grid, contexts, names, strict=True):
        use = amplified(model, context)
        line[0].text(1.0, 0.5, name, ha="right", va="center", fontsize=8, color=INK, transform=line[0].transAxes)
        for axes, at in zip(line[1:], use.argsort(descending=True).tolist(), strict=False):
            _show(axes, tiles[at])
            axes.set_title(f"{float(use[at]):.1f}", fontsize=6, color=INK, pad=1)
    return figure


def draw_gaze(
    model: ImageFlyNet, contexts: Sequence[Mapping[str, Tensor]], names: Sequence[str], pictures: Tensor, title: str
) -> Any:
    """Draw pictures, where they have features, and for every task what speaks for (red) or against its prediction."""
    columns = len(names) + 2
    figure, grid = _grid(len(pictures), columns, 0.95, title)
    maps = [gaze(model, context, pictures).numpy() for context in contexts]
    features = energy(model.encoder, pictures).numpy()
    for at, line in enumerate(grid):
        _show(line[0], as_colours(pictures[at]))
        line[1].imshow(features[at], cmap="magma", interpolation="nearest")
        for axes, found in zip(line[2:], maps, strict=True):
            limit = max(float(np.abs(found[at]).max()), 1e-12)
            axes.imshow(found[at], cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    for axes, name in zip(grid[0], ["picture", "features", *names], strict=True):
        axes.set_title(name, fontsize=7, color=INK, pad=2)
    return figure


def as_colours(image: Tensor) -> Pixels:
    """An image `[channels, h, w]` as `[h, w, 3]` with values from 0 to 1."""
    pixels: Pixels = image.movedim(0, -1).double().numpy()
    pixels = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1].repeat(3, axis=2)
    low, high = float(pixels.min()), float(pixels.max())
    return (pixels - low) / max(high - low, 1e-12)


def _grid(rows: int, columns: int, cell: float, title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(4.0, cell * columns), cell * rows * 1.1 + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    figure.suptitle(title, fontsize=10, color=INK)
    return figure, grid


def _show(axes: Any, tile: Pixels) -> None:
    shown = tile if tile.shape[2] == 3 else tile[..., :1].repeat(3, axis=2)
    axes.imshow(shown, vmin=0, vmax=1, interpolation="nearest")
