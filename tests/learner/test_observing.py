"""Streams: predicted first, learned afterwards, equal to the closed form of all rows; drift; bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch

import crwn
from crwn.errors import ConfigError, ContextError, DataError
from crwn.training.exact.solve import NormalEquations
from digit_rows import Data


def pixels(digits: Data) -> tuple[np.ndarray, np.ndarray]:
    return (digits[0] * 15).astype(np.uint8), digits[1]


@pytest.mark.parametrize("hidden", [200, 2100])
def test_a_stream_ends_at_the_context_of_all_rows(digits: Data, hidden: int) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(crwn.FlyNet(64, hidden, 10, seed=0))
    right = []
    for start in range(0, 600, 40):
        seen = learner.observe("t", x[start : start + 40], y[start : start + 40], classes=range(10))
        right += [seen.predicted[at] == y[start + at] for at in range(40)]
    assert seen.rows == 600
    assert seen.accuracy == pytest.approx(np.mean(right))
    learner.settle("t")
    whole = learner.learn("whole", x[:600], y[:600], method="exact", progress=False)
    for key, value in learner.context("t").tensors.items():
        torch.testing.assert_close(value, whole.tensors[key], rtol=1e-4, atol=1e-4)
    assert learner.statistics("t").rows == 600


def test_rank_k_updates_solve_the_normal_equations(digits: Data) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(crwn.FlyNet(64, 100, 10, seed=0))
    learner.observe("t", x[:300], y[:300], classes=range(10))
    stream = learner._streams["t"]
    # The ridge stays what it was for the first rows, in absolute size.
    ridge = stream.solution.ridge * NormalEquations(stream.statistics, stream.layer.frozen).unit
    for at in range(300, 340):
        learner.observe("t", x[at : at + 1], y[at : at + 1])
    system, gain = NormalEquations(stream.statistics, stream.layer.frozen), stream.solution.gain
    rest = system.right - system.times(gain) * system.unit - ridge * gain
    assert np.abs(rest).max() < 1e-6 * np.abs(system.right).max()


def test_drift_is_noticed_by_the_running_error(digits: Data) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(crwn.FlyNet(64, 300, 10, seed=0))
    for start in range(0, 900, 30):
        seen = learner.observe("t", x[start : start + 30], y[start : start + 30], classes=range(10))
    before = len(seen.drifts)
    for start in range(900, 1200, 30):
        seen = learner.observe("t", x[start : start + 30], (y[start : start + 30] + 1) % 10)
    assert len(seen.drifts) > before
    assert 900 < seen.drifts[-1] <= 1200


def test_streams_are_stored_when_a_learner_closes(digits: Data, tmp_path: Path) -> None:
    x, y = pixels(digits)
    with crwn.Learner(crwn.FlyNet(64, 100, 10, seed=0), bank=tmp_path / "m.crwn") as learner:
        for at in range(20):
            learner.observe("t", x[at : at + 1], y[at : at + 1], classes=range(10))
    with crwn.Learner.load(tmp_path / "m.crwn") as learner:
        assert learner.statistics("t").rows == 20
        assert learner.observe("t", x[20:30], y[20:30]).rows == 10
        learner.settle()
        assert learner.statistics("t").rows == 30
        learner.forget("t")
        with pytest.raises(ConfigError, match='task "t" is new: give classes='):
            learner.observe("t", x[:1], y[:1])


def test_bad_rows_change_nothing(digits: Data) -> None:
    x, y = pixels(digits)
    learner = crwn.Learner(crwn.FlyNet(64, 100, 10, seed=0))
    with pytest.raises(ConfigError, match="give classes="):
        learner.observe("t", x[:1], y[:1])
    with pytest.raises(DataError, match="11 classes: this model takes 2 to 10"):
        learner.observe("t", x[:1], y[:1], classes=range(11))
    with pytest.raises(DataError, match="not a class"):
        learner.observe("t", x[:1], ["cat"], classes=range(10))
    assert not learner._streams
    learner.observe("t", x[:50], y[:50], classes=range(10))
    with pytest.raises(DataError, match="label 'cat' is not a class of task \"t\""):
        learner.observe("t", x[:1], ["cat"])
    with pytest.raises(DataError, match="NaN"):
        learner.observe("t", np.full((1, 64), np.nan, dtype=np.float32), [1])
    with pytest.raises(DataError, match="2 rows but 1 labels"):
        learner.observe("t", x[:2], y[:1])
    assert learner.observe("t", x[50:51], y[50:51]).rows == 51
    learner.learn("plain", x[:200], y[:200], batches=2, progress=False)
    with pytest.raises(ContextError, match="keeps no statistics"):
        learner.observe("plain", x[:1], y[:1])


@pytest.mark.parametrize("hidden", [100, 2100])
def test_a_row_whose_features_overflow_is_refused_at_once(digits: Data, hidden: int) -> None:
    x, y = digits[0].astype(np.float32), digits[1]
    learner = crwn.Learner(crwn.FlyNet(64, hidden, 10, seed=0))
    learner.observe("t", x[:10], y[:10], classes=range(10), scaling=(0.0, 1.0))
    with pytest.raises(DataError, match="features of rows 0 to 0 are not finite"):
        learner.observe("t", np.full((1, 64), 3e38, dtype=np.float32), y[:1])
    assert learner.observe("t", x[10:20], y[10:20]).rows == 20
    learner.settle("t")
    assert learner.statistics("t").rows == 20


@pytest.mark.parametrize("hidden", [100, 2100])
def test_a_stream_may_begin_with_empty_rows(digits: Data, hidden: int) -> None:
    x, y = digits[0].astype(np.float32), digits[1]
    learner = crwn.Learner(crwn.FlyNet(64, hidden, 10, seed=0))
    learner.observe("t", np.zeros((1, 64), dtype=np.float32), y[:1], classes=range(10))
    learner.settle("t")
    assert learner.observe("t", x[:300], y[:300]).rows == 301
    learner.settle("t")
    rows, labels = np.vstack([np.zeros((1, 64), dtype=np.float32), x[:300]]), [y[0], *y[:300]]
    whole = learner.learn("whole", rows, labels, method="exact", scaling=(0.0, 1.0), progress=False)
    for key, value in learner.context("t").tensors.items():
        torch.testing.assert_close(value, whole.tensors[key], rtol=1e-4, atol=1e-4)


def test_other_classes_or_scaling_than_before_are_refused(digits: Data) -> None:
    x, y = digits[0].astype(np.float32), digits[1]
    learner = crwn.Learner(crwn.FlyNet(64, 100, 10, seed=0))
    for add in (learner.observe, learner.partial_fit):
        name = add.__name__
        add(name, x[:50], y[:50], classes=range(10), scaling=(0.0, 1.0))
        add(name, x[50:60], y[50:60], classes=list(np.arange(10)), scaling=(0, 1))
        with pytest.raises(DataError, match="begun without the class 'cat'"):
            add(name, x[60:61], y[60:61], classes=[*range(9), "cat"])
        for known in (name, "new"):
            with pytest.raises(DataError, match="labels must be one value per row, got 5"):
                add(known, x[60:61], y[60:61], classes=5)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=r"begun with scaling=\(0.0, 1.0\), got \(0.0, 2.0\)"):
            add(name, x[60:61], y[60:61], scaling=(0.0, 2.0))
        learner.settle()
        assert learner.statistics(name).rows == 60


def test_old_streams_make_room(digits: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crwn.learner.observing.MOST_STREAMS", 2)
    x, y = pixels(digits)
    learner = crwn.Learner(crwn.FlyNet(64, 60, 10, seed=0))
    for name in ("a", "b", "c", "a"):
        learner.observe(name, x[:20], y[:20], classes=range(10))
    assert list(learner._streams) == ["c", "a"]
    learner.settle()
    assert [learner.statistics(name).rows for name in ("a", "b", "c")] == [40, 20, 20]
