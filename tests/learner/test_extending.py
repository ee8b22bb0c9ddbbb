"""New classes for a task: the same context as all rows at once, and old answers move no more than the report says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import crwn
from crwn.errors import ConfigError, DataError


def digits() -> tuple[Any, Any, Any, Any]:
    """Rows and labels of the digits 0 to 5, and of 6 and 7."""
    x, y = load_digits(return_X_y=True)
    x = x.astype("float32")
    first, later = y < 6, (y == 6) | (y == 7)
    return x[first], y[first], x[later], y[later]


def learner() -> crwn.Learner:
    return crwn.Learner(crwn.FlyNet(64, 640, 10, seed=0))


EXACT: dict[str, Any] = {"method": "exact", "keep_statistics": True, "scaling": (4.88, 6.02), "ridge": 1e-3}


def test_two_new_classes_without_old_rows_are_as_all_at_once() -> None:
    x, y, more, labels = digits()
    ours, whole = learner(), learner()
    ours.learn("d", x, y, progress=False, **EXACT)
    scores = ours.logits(x, "d")[0] / float(ours.context("d").tensors["decoder.alpha"])
    report = ours.extend("d", more, labels, old=(x, y))
    assert report.new_classes == (6, 7)
    assert report.rows == len(labels)
    whole.learn("d", np.concatenate([x, more]), np.concatenate([y, labels]), progress=False, **EXACT)
    for name, tensor in whole.context("d").tensors.items():
        assert np.allclose(ours.context("d").tensors[name], tensor, rtol=1e-4, atol=1e-5)
    assert ours.score(more, labels, "d") > 0.9

    # Scores of the old rows for the old classes, up to a number that all classes of a row share.
    after = ours.logits(x, "d")[0][:, :6] / float(ours.context("d").tensors["decoder.alpha"])
    moved = (after - after.mean(dim=1, keepdim=True)) - (scores - scores.mean(dim=1, keepdim=True))
    lengths = moved.double().square().sum(dim=1).sqrt()
    assert float(lengths.square().mean().sqrt()) == pytest.approx(report.mean_change, rel=0.02)
    assert float(lengths.max()) <= report.largest_change * 1.001
    assert report.answers_changed is not None
    assert report.answers_changed < 0.1


def test_more_rows_of_known_classes_keep_what_inference_knows() -> None:
    x, y, _, _ = digits()
    ours = learner()
    ours.learn("d", x[:500], y[:500], progress=False, **EXACT)
    before = ours.context("d").info
    report = ours.extend("d", x[500:], y[500:])
    assert report.new_classes == ()
    assert report.answers_changed is None
    assert ours.context("d").info.density == before.density
    assert ours.context("d").info.rows == len(x)


def test_without_sums_the_old_rows_are_needed() -> None:
    x, y, more, labels = digits()
    ours = learner()
    ours.learn("d", x, y, batches=30, progress=False)
    with pytest.raises(ConfigError, match=r"give them as old=\(x, y\)"):
        ours.extend("d", more, labels)
    report = ours.extend("d", more, labels, old=(x, y), batches=60, progress=False)
    assert set(report.context.classes) == set(range(8))
    assert 0 <= report.mean_change <= report.largest_change


def test_more_classes_than_outputs_are_refused() -> None:
    x, y, more, labels = digits()
    ours = crwn.Learner(crwn.FlyNet(64, 640, 7, seed=0))
    ours.learn("d", x, y, progress=False, **EXACT)
    with pytest.raises(DataError, match="would have 8 classes, this model has 7 outputs"):
        ours.extend("d", more, labels)
    assert ours.context("d").classes == (0, 1, 2, 3, 4, 5)
