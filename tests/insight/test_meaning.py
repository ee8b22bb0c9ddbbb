"""Tests of meaning: they find what is there, and rarely what is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crwn.errors import DataError
from crwn.insight.meaning import (
    Structure,
    by_distance,
    circular_correlation,
    goes_round,
    known_structures,
    mantel,
    map_angles,
)

ANGLES = np.arange(0, 360, 20.0)


def on_a_ring(noise: float, seed: int) -> np.ndarray:
    turns = np.radians(ANGLES[:, None] - ANGLES)
    drawn = np.random.default_rng(seed).normal(0, noise, turns.shape)
    return np.cos(turns) + (drawn + drawn.T) / 2


def turns() -> Structure:
    return known_structures([{"angle": float(a)} for a in ANGLES], [()] * len(ANGLES))[0]


def test_similarity_that_follows_the_angle_has_a_small_p_value() -> None:
    found = mantel(on_a_ring(0.5, 0), turns(), permutations=999)
    assert found.correlation > 0.5
    assert found.p_value == pytest.approx(0.001)


def test_p_values_of_chance_are_spread_evenly() -> None:
    values = [
        mantel(np.random.default_rng(i).normal(size=(18, 18)), turns(), permutations=99).p_value for i in range(60)
    ]
    assert 0.3 < np.mean(values) < 0.7
    assert min(values) >= 0.01


def test_mantel_says_the_same_every_time_and_checks_what_it_gets() -> None:
    alike = on_a_ring(1.0, 1)
    assert mantel(alike, turns(), permutations=99, seed=3) == mantel(alike, turns(), permutations=99, seed=3)
    with pytest.raises(DataError, match="at least 4"):
        mantel(np.eye(3), Structure("angle", np.ones((3, 3))))
    with pytest.raises(DataError, match="nothing to test"):
        mantel(np.eye(5), Structure("angle", np.ones((5, 5))))
    with pytest.raises(DataError, match="18 tasks in one matrix, 5"):
        mantel(alike, Structure("angle", np.ones((5, 5))))


@given(shift=st.floats(0, 360), mirrored=st.booleans())
@settings(max_examples=25)
def test_circular_correlation_is_deaf_to_rotation(shift: float, mirrored: bool) -> None:
    other = shift + (-ANGLES if mirrored else ANGLES)
    assert circular_correlation(ANGLES, other) == pytest.approx(-1.0 if mirrored else 1.0)


def test_circular_correlation_of_chance_is_small_and_of_a_double_turn_zero() -> None:
    generator = np.random.default_rng(0)
    chance = [circular_correlation(ANGLES, generator.uniform(0, 360, len(ANGLES))) for _ in range(200)]
    assert abs(np.mean(chance)) < 0.05
    assert circular_correlation(ANGLES, 2 * ANGLES) == pytest.approx(0.0, abs=1e-9)


def test_directions_on_a_map() -> None:
    places = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]) + 7.0
    np.testing.assert_allclose(map_angles(places), [0, 90, 180, 270])


def test_angles_come_round_again_and_numbers_do_not() -> None:
    by_angle = known_structures([{"angle": 350.0}, {"angle": 10.0}, {"angle": 90.0}], [()] * 3)[0]
    assert by_angle.distances[0].tolist() == [0.0, 20.0, 100.0]
    by_number = known_structures([{"latitude": 350}, {"latitude": 10}, {"latitude": 90}], [()] * 3)[0]
    assert by_number.distances[0].tolist() == [0.0, 340.0, 260.0]


def test_shared_classes_and_superclasses_are_structures() -> None:
    classes = [("otter", "rose"), ("seal", "tulip"), ("rose", "bus"), ("cloud", "sea")]
    found = {one.name: one.distances for one in known_structures([{}] * 4, classes)}
    assert set(found) == {"shared classes", "shared superclasses"}
    assert found["shared classes"][0].tolist() == [0.0, 1.0, pytest.approx(2 / 3), 1.0]
    assert found["shared superclasses"][0].tolist() == [0.0, 0.5, 0.75, 1.0]
    assert known_structures([{}] * 3, [("a", "b")] * 3) == []


def test_similarity_by_distance() -> None:
    steps = by_distance(on_a_ring(0.0, 0), turns())
    assert [step.distance for step in steps] == [20.0 * k for k in range(1, 10)]
    assert all(a.mean > b.mean for a, b in itertools.pairwise(steps))
    assert sum(step.pairs for step in steps) == 18 * 17 // 2
    assert all(step.low <= step.mean + 1e-9 and step.mean <= step.high + 1e-9 for step in steps)


def test_whether_angles_go_round() -> None:
    assert goes_round([0, 120, 240])
    assert goes_round(np.arange(0, 360, 10))
    assert not goes_round(np.arange(0, 80, 10))
    assert not goes_round([0, 180])
