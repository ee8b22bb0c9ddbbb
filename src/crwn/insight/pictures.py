"""Pictures of contexts: matrix, tree, map, input images, similarity against distance, alpha, drift; PNG and SVG."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crwn.insight.arrange import Map, Tree
from crwn.insight.drift import DriftRecorder
from crwn.insight.meaning import Step, goes_round, is_angle, is_share
from crwn.insight.measures import Matrix

INK = "#1f2937"
ACCENT = "#0b6e99"
BAND = "#9ecae1"


def draw_matrix(alike: Matrix, names: Sequence[str], order: Sequence[int], title: str) -> Any:
    """Draw the similarity of every pair, tasks in the order of the tree."""
    figure, axes = _page(7.2, 6.4)
    arranged = alike[np.ix_(order, order)]
    off = arranged[~np.eye(len(arranged), dtype=bool)]
    limit = max(float(np.percentile(np.abs(off), 99)), 1e-6)
    shown = axes.imshow(arranged, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    _name_ticks(axes, [names[i] for i in order])
    _title(axes, title, 7.2)
    figure.colorbar(shown, ax=axes, shrink=0.8, label="similarity")
    return figure


def draw_tree(tree: Tree, names: Sequence[str], title: str) -> Any:
    """Draw the dendrogram of the clustering."""
    from scipy.cluster.hierarchy import dendrogram

    figure, axes = _page(max(6.4, 0.22 * len(names)), 4.2)
    dendrogram(tree.linkage, labels=list(names), ax=axes, color_threshold=0, above_threshold_color=ACCENT)
    axes.set_ylabel("1 - similarity")
    low, high = float(tree.linkage[:, 2].min()), float(tree.linkage[:, 2].max())
    axes.set_ylim(max(0.0, low - 0.3 * (high - low) - 1e-3), high + 0.05 * (high - low) + 1e-3)
    axes.tick_params(axis="x", labelsize=7 if len(names) <= 60 else 4, rotation=90)
    _title(axes, title, max(6.4, 0.22 * len(names)))
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def draw_map(made: Map, names: Sequence[str], factor: str | None, values: Sequence[float] | None, title: str) -> Any:
    """Draw the map of tasks, coloured by a known factor."""
    figure, axes = _page(6.6, 5.6)
    x, y = made.places[:, 0], made.places[:, 1]
    degrees = factor is not None and is_angle(factor)
    circular = degrees and values is not None and goes_round(values)
    if values is not None and len(values) > 1:
        turn = np.argsort(values)
        path = np.append(turn, turn[:1]) if circular else turn
        axes.plot(x[path], y[path], color="#9ca3af", linewidth=0.8, zorder=1)
    colour: dict[str, Any] = (
        {"c": ACCENT} if values is None else {"c": values, "cmap": "twilight" if circular else "viridis"}
    )
    if circular:
        colour |= {"vmin": 0.0, "vmax": 360.0}
    dots = axes.scatter(x, y, s=70, edgecolors=INK, linewidths=0.6, zorder=2, **colour)
    if values is not None:
        figure.colorbar(dots, ax=axes, shrink=0.8, label=f"{factor} (degrees)" if degrees else factor)
    for i in _some(len(names), 18):
        text = f"{values[i]:g}" if values is not None else names[i]
        axes.annotate(text, (x[i], y[i]), xytext=(6, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"{100 * made.shares[0]:.0f}% of squared distance")
    axes.set_ylabel(f"{100 * made.shares[1]:.0f}% of squared distance")
    _title(axes, title, 6.6)
    return figure


def draw_inputs(images: Matrix, names: Sequence[str], title: str) -> Any:
    """Draw the input layer's context of each task as an image: bright where it is far from the start."""
    from matplotlib.figure import Figure

    shown = _some(len(names), 36)
    columns = min(9, math.ceil(math.sqrt(len(shown) * 1.6)))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(1.25 * columns, 1.42 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    low, high = np.percentile(images, [2, 99.5])
    for axes in grid.flat:
        axes.axis("off")
    for axes, i in zip(grid.flat, shown, strict=False):
        axes.imshow(images[i], cmap="magma", vmin=low, vmax=high, interpolation="nearest")
        axes.set_title(names[i], fontsize=8, color=INK, pad=2)
    # Few tasks make a narrow picture: the title is wrapped to its width.
    figure.suptitle("\n".join(textwrap.wrap(title, 13 * columns)), fontsize=11, color=INK)
    return figure


def draw_common(image: Matrix, title: str) -> Any:
    """Draw the mean of the input contexts, each rotated back by its angle."""
    figure, axes = _page(4.6, 4.2)
    axes.imshow(image, cmap="magma", interpolation="nearest")
    axes.axis("off")
    _title(axes, title, 4.6)
    return figure


def draw_against(steps: Sequence[Step], structure: str, title: str) -> Any:
    """Draw similarity against a known distance: the mean, and a band with the middle 90 % of pairs."""
    figure, axes = _page(6.6, 4.2)
    distance = [1 - step.distance if is_share(structure) else step.distance for step in steps]
    low, high = [step.low for step in steps], [step.high for step in steps]
    axes.fill_between(distance, low, high, color=BAND, alpha=0.5, linewidth=0, label="middle 90% of pairs")
    axes.plot(distance, [step.mean for step in steps], color=ACCENT, marker="o", markersize=4, label="mean")
    axes.axhline(0, color="#9ca3af", linewidth=0.8)
    if len(distance) <= 10:
        axes.set_xticks(distance)
    if is_share(structure):
        axes.set_xlabel(f"share of {structure.removeprefix('shared ')} that two tasks have in common")
    else:
        axes.set_xlabel(f"difference in {structure}" + (" (degrees)" if is_angle(structure) else ""))
    axes.set_ylabel("similarity")
    _title(axes, title, 6.6)
    axes.legend(frameon=False)
    return figure


def draw_alphas(alphas: Mapping[str, Sequence[float]], names: Sequence[str], title: str) -> Any:
    """Draw alpha of every layer for every task; layers with equal values share a line.

    Without norms all layers of ReLU have the same: multiplying any of their alphas multiplies the outputs alike.
    """
    lines: dict[str, Sequence[float]] = {}
    for layer, values in alphas.items():
        same = next((name for name, others in lines.items() if np.allclose(values, others, rtol=1e-3)), None)
        if same is None:
            lines[layer] = values
        else:
            lines = {(f"{name}, {layer}" if name == same else name): others for name, others in lines.items()}
    figure, axes = _page(6.6, 3.8)
    marks = "osD^vP*Xd<>"
    for i, (layer, values) in enumerate(list(lines.items())[: len(marks)]):
        axes.plot(values, marker=marks[i], markersize=4, linewidth=1, label=layer)
    places = _some(len(names), 12)
    axes.set_xticks(places, [names[i] for i in places], rotation=45, ha="right", fontsize=8)
    axes.set_ylabel("alpha")
    _title(axes, title, 6.6)
    axes.legend(frameon=False, ncols=min(3, len(lines)), fontsize=8)
    return figure


def draw_drift(drift: DriftRecorder, title: str) -> Any:
    """Draw the distance of contexts from their start during training: a line per layer, the mean over tasks."""
    figure, axes = _page(6.6, 3.8)
    for layer in drift.layers:
        far = np.array([list(row.values()) for row in drift.distances(layer)])
        axes.plot(drift.steps, far.mean(axis=1), marker="o", markersize=3, label=layer)
    axes.set_xlabel("batches")
    axes.set_ylabel("distance from the start / size of the start")
    _title(axes, title, 6.6)
    axes.legend(frameon=False)
    return figure


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; the same figure gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "crwn"}):
        figure.savefig(paths[0], dpi=144, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _page(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _title(axes: Any, text: str, width: float) -> None:
    """Set a title that is wrapped to a picture of this width in inches; long names of folders do not fit in a line."""
    axes.set_title("\n".join(textwrap.wrap(text, int(11 * width))), fontsize=11, color=INK)


def _some(count: int, most: int) -> list[int]:
    """At most `most` positions of a list, spread evenly."""
    step = max(1, math.ceil(count / most))
    return list(range(0, count, step))


def _name_ticks(axes: Any, names: Sequence[str]) -> None:
    places = _some(len(names), 40)
    axes.set_xticks(places, [names[i] for i in places], rotation=90, fontsize=6)
    axes.set_yticks(places, [names[i] for i in places], fontsize=6)
