"""Metrics against numbers worked out by hand."""

from __future__ import annotations

import pytest

from crwn.experiments.metrics import average, backward_transfer, deviation, forgetting, forward_transfer


def test_forgetting_by_hand() -> None:
    # Task 1 falls from 98 to 60, task 2 from 97 to 81, task 3 from 95 to 94; the last cannot be forgotten.
    after, final = [98.0, 97.0, 95.0, 96.0], [60.0, 81.0, 94.0, 96.0]
    assert forgetting(after, final) == pytest.approx((38 + 16 + 1) / 3)
    assert backward_transfer(after, final) == pytest.approx(-(38 + 16 + 1) / 3)


def test_nothing_forgotten_is_exactly_zero() -> None:
    values = [91.23, 90.07, 89.9]
    assert forgetting(values, values) == 0.0
    assert str(backward_transfer(values, values)) == "0.0"


def test_one_task_cannot_be_forgotten() -> None:
    assert forgetting([90.0], [90.0]) == 0.0


def test_improvement_is_negative_forgetting() -> None:
    assert forgetting([80.0, 90.0], [85.0, 90.0]) == -5.0


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 accuracies after learning but 1"):
        forgetting([1.0, 2.0], [1.0])


def test_forward_transfer_by_hand() -> None:
    assert forward_transfer([None, 40.0, 60.0], [9.0, 10.0, 12.0]) == pytest.approx((30 + 48) / 2)
    assert forward_transfer([None, None], [9.0, 10.0]) is None
    assert forward_transfer([None], [9.0]) is None


def test_spread_over_seeds() -> None:
    assert average([90.0, 92.0, 94.0]) == 92.0
    assert deviation([90.0, 92.0, 94.0]) == 2.0
    assert deviation([90.0]) == 0.0
