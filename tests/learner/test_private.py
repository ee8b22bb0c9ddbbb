"""A learner's private tasks: what their contexts keep, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crwn
from crwn.errors import ConfigError, CRWNError, DataError, TaskExistsError
from digit_rows import Data

pytest.importorskip("opacus", reason='Opacus is not installed: pip install "crwn[privacy]"')


def test_a_private_context_keeps_the_guarantee_and_nothing_measured_on_rows(digits: Data) -> None:
    x, y = (digits[0] * 15).astype(np.uint8), digits[1]
    learner = crwn.Learner(crwn.FlyNet(64, 300, 10, seed=0))
    context = learner.learn("t", x[:1200], y[:1200], epsilon=8.0, delta=1e-4, epochs=5, classes=range(10))
    assert context.info.privacy is not None
    assert 7.5 < context.info.privacy["epsilon"] <= 8.0
    assert context.info.privacy["delta"] == 1e-4
    measured = (context.info.loss, context.info.training_accuracy, context.info.accuracy, context.info.sketch)
    assert (*measured, context.info.own_entropy, context.info.majority) == (None,) * 6
    assert learner.score(x[1200:], y[1200:], task="t") > 0.5
    assert learner.context("t").info.privacy == context.info.privacy  # as it is read again
    with pytest.raises(TaskExistsError):
        learner.learn("t", x, y, epsilon=8.0, delta=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1.0}, "delta is missing"),
        ({"delta": 1e-5}, "epsilon is missing"),
        ({"epsilon": 0.0, "delta": 1e-5}, "epsilon: Input should be greater than 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta: Input should be less than 1"),
        ({"epsilon": 1.0, "delta": 1e-5, "batches": 5}, "batches cannot be used with epsilon and delta"),
        ({"epsilon": 1.0, "delta": 1e-5, "method": "exact"}, "exact cannot be used with epsilon and delta"),
        ({"epsilon": 1.0, "delta": 1e-5, "validation": 0.1}, "validation cannot be used with epsilon and delta"),
    ],
)
def test_wrong_options_are_one_line(digits: Data, options: dict[str, Any], message: str) -> None:
    learner = crwn.Learner(crwn.FlyNet(64, 50, 10, seed=0))
    x = (digits[0][:50] * 15).astype(np.uint8)
    with pytest.raises(ConfigError, match=message):
        learner.learn("t", x, digits[1][:50], **options)
    assert learner.tasks == []


def test_a_measured_scaling_is_refused(digits: Data) -> None:
    learner = crwn.Learner(crwn.FlyNet(64, 50, 10, seed=0))
    with pytest.raises(DataError, match="would reveal them: give scaling"):
        learner.learn("t", digits[0][:50], digits[1][:50], epsilon=1.0, delta=1e-5)
    given = learner.learn("t", digits[0][:50], digits[1][:50], epsilon=1.0, delta=1e-5, scaling=(8.0, 4.0), epochs=1)
    assert given.info.scaling == (8.0, 4.0)
    with pytest.raises(CRWNError, match="NaN"):
        learner.learn("n", np.full((5, 64), np.nan), [0, 1, 0, 1, 0], epsilon=1.0, delta=1e-5, scaling=(8.0, 4.0))


@pytest.mark.parametrize("weights", ["gaussian", "hadamard"])
def test_products_of_any_size_are_learned_from(weights: str) -> None:
    """Large ones are computed by another library than small ones."""
    x = np.random.default_rng(0).integers(0, 256, size=(256, 784), dtype=np.uint8)
    learner = crwn.Learner(crwn.NeuroModNet(784, (256, 256), 10, seed=0, weights=weights))
    learner.learn("t", x, np.arange(256) % 10, epsilon=8.0, delta=1e-4, epochs=1, progress=False)
    assert learner.context("t").info.privacy is not None
