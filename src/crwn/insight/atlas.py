"""The atlas: how many tasks relate by their contexts, as measures, tables and pictures."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crwn._utils import counted, write_whole
from crwn.errors import DataError
from crwn.insight import inputs, pictures, turning
from crwn.insight.arrange import Map, Tree, cluster, make_map
from crwn.insight.collection import Collection
from crwn.insight.effect import effect_similarity
from crwn.insight.eye_pictures import eye_pictures
from crwn.insight.meaning import (
    PERMUTATIONS,
    Meaning,
    Step,
    Structure,
    by_distance,
    circular_correlation,
    goes_round,
    is_angle,
    is_share,
    known_structures,
    mantel,
    map_angles,
)
from crwn.insight.measures import MEASURES, Matrix, layers, nearest_tasks, similarity
from crwn.models import ImageFlyNet, network_of

LEAST_TASKS = 3
MOST_TASKS = 400
FEW = 12  # with at most so many tasks, each has a large part in their mean


@dataclass(frozen=True)
class Atlas:
    """How the tasks of a collection relate.

    Args:
        alike: similarity of every pair of contexts over all layers, `[tasks, tasks]`.
        effect: the same for the outputs of the contexts (see `crwn.insight.effect`); None if the network is not known.
        tests: layer ("all" for all together), measure and Mantel test against each known structure.
        steps: for each known structure, similarity against distance.
        rings: for each map ("contexts", "effect") the absolute circular correlation of the direction on it with a
            known angle. Empty if there is no angle.
        turning: how well angles can be estimated from the input contexts; None if there are none.
    """

    collection: Collection
    measure: str
    alike: Matrix
    effect: Matrix | None
    tree: Tree
    maps: dict[str, Map]
    structures: list[Structure]
    tests: list[tuple[str, str, Meaning]]
    steps: dict[str, list[Step]]
    rings: dict[str, float]
    turning: turning.Turning | None


def make_atlas(
    collection: Collection, *, measure: str = "cosine", permutations: int = PERMUTATIONS, seed: int = 0
) -> Atlas:
    """Compute the similarity of all tasks and test it against the known structures.

    Raises:
        DataError: fewer than three tasks, or contexts of different models.
    """
    if len(collection) < LEAST_TASKS:
        raise DataError(
            f"{collection.source} has {counted(len(collection), 'task')}: an atlas takes at least {LEAST_TASKS}"
        )
    shapes = {tuple((name, tuple(one[name].shape)) for name in sorted(one)) for one in collection.contexts}
    if len(shapes) > 1:
        raise DataError(
            f"the contexts in {collection.source} are of {len(shapes)} different forms: compare one model's"
        )
    collection = collection.at_most(MOST_TASKS)
    alike = similarity(collection.contexts, measure)
    effect = None
    if collection.model is not None and network_of(collection.model).input_shape is not None:
        effect = effect_similarity(collection.model, collection.contexts, seed=seed)
    maps = {"contexts": make_map(alike)} | ({} if effect is None else {"effect": make_map(effect)})
    structures = known_structures(collection.factors, collection.classes)
    tests = []
    if len(collection) >= 4:
        views: list[tuple[str, str | None, str]] = [("all", None, name) for name in MEASURES]
        names = layers(collection.contexts[0])
        views += [(name, name, measure) for name in names[:8] if len(names) > 1]
        matrices = [(label, how, similarity(collection.contexts, how, layer=layer)) for label, layer, how in views] + (
            [] if effect is None else [("all", "effect", effect)]
        )
        for label, how, matrix in matrices:
            tests += [
                (label, how, mantel(matrix, structure, permutations=permutations, seed=seed))
                for structure in structures
            ]
    return Atlas(
        collection,
        measure,
        alike,
        effect,
        cluster(alike),
        maps,
        structures,
        tests,
        {structure.name: by_distance(alike, structure) for structure in structures},
        {name: found for name, made in maps.items() if (found := _ring(made, collection)) is not None},
        _turning(collection),
    )


def summary(atlas: Atlas) -> dict[str, Any]:
    """The results as plain data, as `crwn atlas --json` prints them."""
    collection = atlas.collection
    return {
        "source": collection.source,
        "tasks": len(collection),
        "measure": atlas.measure,
        "tests": [{"layer": layer, "measure": how, **asdict(found)} for layer, how, found in atlas.tests],
        "similarity_by": {name: [asdict(step) for step in steps] for name, steps in atlas.steps.items()},
        "rings": atlas.rings,
        "turning": None
        if atlas.turning is None
        else {"correlation": atlas.turning.correlation, "median_error": atlas.turning.median_error},
        "map_shares": {name: made.shares for name, made in atlas.maps.items()},
        "nearest": {name: found[0] for name, found in nearest_tasks(collection.names, atlas.alike).items()},
        "alpha": {
            layer: {"mean": float(np.mean(values)), "deviation": float(np.std(values))}
            for layer, values in inputs.alphas(collection.contexts).items()
        },
    }


def write_atlas(atlas: Atlas, folder: Path) -> list[Path]:
    """Write pictures, tables and `atlas.json` into a folder and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [*_tables(atlas, folder), *_pictures(atlas, folder)]
    whole = folder / "atlas.json"
    write_whole(whole, (json.dumps(summary(atlas), indent=1) + "\n").encode())
    return [*written, whole]


def _tables(atlas: Atlas, folder: Path) -> list[Path]:
    names = atlas.collection.names
    near = nearest_tasks(names, atlas.alike)
    alphas = inputs.alphas(atlas.collection.contexts)
    places = [f"{name}_{axis}" for name in atlas.maps for axis in "xy"]
    factors = list(dict.fromkeys(key for one in atlas.collection.factors for key in one))
    tasks = folder / "tasks.csv"
    with tasks.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        heads = ["task", *factors, *places, "place_in_tree", "nearest", "nearest_similarity"]
        writer.writerow(heads + [f"alpha {layer}" for layer in alphas])
        for i, name in enumerate(names):
            known = atlas.collection.factors[i] if atlas.collection.factors else {}
            other, value = near[name][0]
            place = atlas.tree.order.index(i)
            row: list[object] = [name, *(known.get(key, "") for key in factors)]
            row += [f"{made.places[i, axis]:.6f}" for made in atlas.maps.values() for axis in (0, 1)]
            row += [place, other, f"{value:.6f}"]
            writer.writerow(row + [f"{values[i]:.6f}" for values in alphas.values()])
    pairs = folder / "similarity.csv"
    with pairs.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", *names])
        for name, line in zip(names, atlas.alike, strict=True):
            writer.writerow([name, *(f"{value:.6f}" for value in line)])
    return [tasks, pairs]


def _pictures(atlas: Atlas, folder: Path) -> list[Path]:
    collection = atlas.collection
    names, source = collection.names, collection.source
    factor, values = coloured_by(collection)
    drawn = {
        "similarity": pictures.draw_matrix(atlas.alike, names, atlas.tree.order, f"Similarity of contexts: {source}"),
        "tree": pictures.draw_tree(atlas.tree, names, f"Contexts joined by similarity: {source}"),
    }
    titles = {"contexts": "Map of contexts", "effect": "Map of the outputs of contexts"}
    for name, made in atlas.maps.items():
        drawn[f"map-{name}"] = pictures.draw_map(made, names, factor, values, f"{titles[name]}: {source}")
    weights, shape = inputs.input_weights(collection), inputs.image_shape(collection)
    if weights is not None and shape is not None:
        images = turning.smoothed(weights.reshape(len(names), *shape))
        drawn["inputs"] = pictures.draw_inputs(images, names, f"Where each task moved its input context: {source}")
    if atlas.turning is not None:
        drawn["turned-back"] = pictures.draw_common(atlas.turning.common, f"All tasks rotated back, averaged: {source}")
    for name, steps in atlas.steps.items():
        if len(steps) > 2:
            drawn[f"by-{name.replace(' ', '-')}"] = pictures.draw_against(steps, name, _title(atlas, name))
    alphas = inputs.alphas(collection.contexts)
    if alphas:
        drawn["alpha"] = pictures.draw_alphas(alphas, names, f"Alpha by layer and task: {source}")
    if isinstance(collection.model, ImageFlyNet):
        drawn |= eye_pictures(collection.model, collection.contexts, names, source)
    return [path for name, figure in drawn.items() for path in pictures.save(figure, folder, name)]


def coloured_by(collection: Collection) -> tuple[str | None, list[float] | None]:
    """The first numeric factor all tasks have, and its values."""
    for name in collection.factors[0] if collection.factors else ():
        values = [one.get(name) for one in collection.factors]
        if all(isinstance(value, int | float) for value in values):
            return name, [float(value) for value in values if isinstance(value, int | float)]
    return None, None


def _ring(made: Map, collection: Collection) -> float | None:
    factor, values = coloured_by(collection)
    if factor is None or values is None or not is_angle(factor) or not goes_round(values):
        return None  # angles within a part of the circle form no ring
    return abs(circular_correlation(map_angles(made.places), values))


def _turning(collection: Collection) -> turning.Turning | None:
    factor, values = coloured_by(collection)
    weights, shape = inputs.input_weights(collection), inputs.image_shape(collection)
    if factor is None or values is None or not is_angle(factor) or weights is None or shape is None:
        return None
    return turning.read_angles(weights.reshape(len(collection), *shape), values)


def _title(atlas: Atlas, structure: str) -> str:
    for layer, how, found in atlas.tests:
        if (layer, how, found.structure) == ("all", atlas.measure, structure):
            return f"Similarity against {structure}: {atlas.collection.source} (p = {found.p_value:.4f})"
    return f"Similarity against {structure}: {atlas.collection.source}"


def summary_lines(atlas: Atlas) -> list[str]:
    """The results of the atlas as lines of text, as `crwn atlas` prints them."""
    lines = [f"{atlas.collection.source}: {len(atlas.collection)} tasks, {atlas.measure} similarity of contexts"]
    count = len(atlas.collection)
    if atlas.measure == "cosine" and count <= FEW:
        unrelated = -1 / (count - 1)
        lines.append(f"the mean context is subtracted: among {count}, unrelated tasks have about {unrelated:+.2f}")
    for name, steps in atlas.steps.items():
        shown = [step for step in steps if not is_angle(name) or step.distance in (10, 20, 30, 60, 90, 120, 180)][:8]
        if is_share(name):
            parts = ", ".join(f"{1 - step.distance:.0%}: {step.mean:+.3f}" for step in reversed(shown))
            lines.append(f"mean similarity by {name}: {parts}")
            continue
        parts = ", ".join(f"{step.distance:g}: {step.mean:+.3f}" for step in shown)
        lines.append(f"mean similarity by difference in {name}: {parts}")
    for layer, how, found in atlas.tests:
        lines.append(
            f"{found.structure}, {how}, {'all layers' if layer == 'all' else layer}: correlation "
            f"{found.correlation:+.3f}, p = {found.p_value:.4f} ({found.permutations} permutations)"
        )
    for name, ring in atlas.rings.items():
        lines.append(f"ring on the map of {name}: circular correlation of direction with angle {ring:.3f}")
    if atlas.turning is not None:
        lines.append(
            f"angles estimated from the input contexts: circular correlation {atlas.turning.correlation:.3f}, "
            f"median error {atlas.turning.median_error:g} degrees"
        )
    return lines
