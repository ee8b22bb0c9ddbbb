"""Ratios and exponents: the arithmetic of every figure."""

from __future__ import annotations

import pytest

from crwn.bench.measure import alternately, exponent, ratio


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # Round two was slow for both sides: its ratio is not touched by that.
    figure = ratio("training.x", "x", slower=[10.0, 100.0, 12.0], faster=[1.0, 10.0, 1.0])
    assert figure.value == 10.0
    assert figure.spread == (10.0, 12.0)
    assert figure.as_json()["seconds_theirs"] == 12.0
    assert figure.as_json()["seconds_ours"] == 1.0


def test_sides_take_turns() -> None:
    order: list[str] = []
    taken = alternately({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, warm_up=1)
    assert order == ["a", "b"] * 3
    assert [len(times) for times in taken.values()] == [2, 2]


def test_uneven_sides_are_refused() -> None:
    with pytest.raises(ValueError):
        ratio("training.x", "x", slower=[1.0], faster=[1.0, 2.0])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_an_exponent_is_the_power_of_growth(power: float) -> None:
    sizes = [1, 2, 4, 8]
    rounds = [[slow * size**power for size in sizes] for slow in (1.0, 7.0)]
    figure = exponent("scaling.x", "x", sizes, rounds, facts={})
    assert figure.value == pytest.approx(power)
    assert figure.facts["times_the_first"] == pytest.approx([size**power for size in sizes])
