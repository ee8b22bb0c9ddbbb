"""Estimates of how long a run takes."""

from __future__ import annotations

import pytest

from crwn.experiments.config import RunConfig
from crwn.experiments.plan import batches, seconds_per_batch


def hours(method: str, measured: dict[str, float]) -> float:
    config = RunConfig(scenario="split-mini-imagenet", method=method, size="1d")
    return 20 * batches(config) * seconds_per_batch(config, measured) / 3600


@pytest.mark.parametrize(("method", "expected"), [("stl", 97), ("neuromodnet", 169)])
def test_large_images_take_days_whatever_was_measured_on_small_ones(method: str, expected: float) -> None:
    assert hours(method, {}) == pytest.approx(expected, rel=0.02)
    on_cifar = {f"split-cifar100 {method} 1d": 0.2}
    assert hours(method, on_cifar) == hours(method, {})
    assert hours(method, {f"split-mini-imagenet {method} 1d": 3.6}) == pytest.approx(100)
