"""Contexts watched while they are learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import crwn
from crwn.errors import ConfigError, DataError
from crwn.insight import DriftRecorder, pictures
from crwn.layers import context_tensors


def test_drift_is_recorded_for_every_task_and_ends_at_the_context_kept(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 8)).astype("float32")
    learner = crwn.Learner(crwn.NeuroModNet(in_features=8, hidden=(16,), classes=2, seed=0))
    drift = DriftRecorder(context_tensors(learner.model), every=20)
    learner.learn_many(
        {"left": (x, x[:, 0] > 0), "right": (x, x[:, 1] > 0)}, batches=50, progress=False, callbacks=[drift]
    )
    assert drift.steps == [0, 20, 40, 50]
    assert drift.tasks == ["left", "right"]
    far = drift.distances("layers.0")
    assert far[0] == {"left": 0.0, "right": 0.0}
    assert all(row[task] > 0 for row in far[1:] for task in drift.tasks)
    kept = learner.context("left").tensors
    for name, tensor in drift.contexts(50)[0].items():
        assert tensor.allclose(kept[name])
    assert set(drift.similarities()) == {20, 40, 50}
    written = pictures.save(pictures.draw_drift(drift, "drift"), tmp_path, "d")
    assert sorted(path.name for path in written) == ["d.png", "d.svg"]
    assert min(path.stat().st_size for path in written) > 1000
    with pytest.raises(DataError, match="no snapshot at batch 30"):
        drift.contexts(30)


def test_every_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="every=0"):
        DriftRecorder({}, every=0)
