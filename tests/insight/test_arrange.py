"""Trees and maps."""

from __future__ import annotations

import numpy as np
import pytest

from crwn.errors import DataError
from crwn.insight.arrange import cluster, groups, make_map


def of_points(points: np.ndarray) -> np.ndarray:
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def test_clustering_finds_two_crowds_and_keeps_them_together() -> None:
    generator = np.random.default_rng(0)
    left, right = generator.normal([5, 0, 0], 0.5, (6, 3)), generator.normal([0, 5, 0], 0.5, (6, 3))
    points = np.concatenate([left, right])[[0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]]  # mixed up
    tree = cluster(of_points(points))
    sides = [place % 2 for place in tree.order]
    assert sides in ([0] * 6 + [1] * 6, [1] * 6 + [0] * 6)
    assert len(set(groups(tree, 2))) == 2


def test_a_map_of_points_on_a_plane_keeps_their_distances() -> None:
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    made = make_map(of_points(points))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(np.linalg.norm(made.places[:, None] - made.places, axis=2), apart, atol=1e-7)
    assert sum(made.shares) == pytest.approx(1.0)


def test_too_few_tasks_are_refused() -> None:
    with pytest.raises(DataError, match="at least 2"):
        cluster(np.eye(1))
    with pytest.raises(DataError, match="2 tasks cannot be put on a map of 2 dimensions"):
        make_map(np.eye(2))
