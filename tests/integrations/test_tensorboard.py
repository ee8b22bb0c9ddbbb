"""TensorBoard's own reader finds what the callback wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crwn
from crwn.errors import ConfigError
from crwn.integrations.tensorboard import TensorBoard


def _learner() -> tuple[crwn.Learner, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
    return crwn.Learner(crwn.NeuroModNet(8, (32,), 2, seed=0)), x, x[:, 0] > 0


def test_losses_rates_and_norms_are_there(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    learner, x, y = _learner()
    losses: list[float] = []
    with TensorBoard(tmp_path, every=4) as board:
        learner.learn(
            "a", x, y, batches=10, progress=False, callbacks=[board, lambda s: losses.append(float(s.losses))]
        )
        learner.learn_many({"b": (x, y), "c": (x, ~y)}, batches=10, progress=False, callbacks=[board])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert {"loss/a", "loss/b", "loss/c", "rate/a", "norm of layers.0.v/a"} <= set(events.Tags()["scalars"])
    written = events.Scalars("loss/a")
    assert [entry.step for entry in written] == [4, 8, 10]
    np.testing.assert_allclose([entry.value for entry in written], [losses[3], losses[7], losses[9]], rtol=1e-6)


def test_wrong_interval_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got 0"):
        TensorBoard(tmp_path, every=0)


def test_missing_package_is_named() -> None:
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "import crwn, crwn.integrations.tensorboard as t\n"
        "try: t.TensorBoard('nowhere')\n"
        "except crwn.CRWNError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "crwn[tensorboard]"' in done.stdout


def test_example_of_a_logger_of_ones_own(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "custom_logger.py"
    subprocess.run([sys.executable, str(example), str(tmp_path / "losses.txt")], check=True, capture_output=True)
    lines = (tmp_path / "losses.txt").read_text().splitlines()
    assert len(lines) == 100
    assert lines[0].startswith("{'loss/upright': ")
    assert lines[0].endswith(" 1")
