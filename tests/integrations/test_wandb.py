"""Weights & Biases, offline: what is logged is in the run's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import crwn
from crwn.errors import ConfigError
from crwn.integrations.wandb import WeightsAndBiases

pytest.importorskip("wandb")


def test_steps_and_results_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    learner = crwn.Learner(crwn.NeuroModNet(in_features=4, hidden=(8,), classes=2, seed=0))
    with WeightsAndBiases("crwn-test", name="one", config={"size": 8}, every=2) as log:
        learner.learn("sign", rows, rows[:, 0] > 0, batches=5, progress=False, callbacks=[log])
        log.result({"sign": 91.5}, {"average_accuracy": 91.5})
        assert log.run.summary["accuracy/sign"] == 91.5
        assert log.run.summary["loss/sign"] > 0
        assert log.run.step == 5
    (written,) = tmp_path.rglob("*.wandb")
    assert written.stat().st_size > 0
    with pytest.raises(ConfigError, match="every must be at least 1"):
        WeightsAndBiases("crwn-test", every=0)
