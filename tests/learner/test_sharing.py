"""One head over the classes of all tasks: its answers, its file, and that the order of tasks makes no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import crwn
from crwn.errors import ConfigError, DataError, TaskError

TASKS = {"low": (0, 1, 2), "middle": (3, 4, 5), "high": (6, 7, 8, 9)}


def digits(*, test: bool = False) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    part = slice(1300, None) if test else slice(0, 1300)
    return (15 * x[part]).astype("uint8"), y[part]


def learned(order: list[str], bank: Path | None = None) -> crwn.Learner:
    learner = crwn.Learner(crwn.FlyNet(64, 640, 10, seed=0), bank=bank)
    x, y = digits()
    for name in order:
        mine = np.isin(y, TASKS[name])
        learner.learn(name, x[mine], y[mine], method="exact", progress=False)
        learner.share(name, x[mine], y[mine])
    return learner


def test_all_classes_are_answered_without_a_task() -> None:
    learner = learned(list(TASKS))
    x, y = digits(test=True)
    answers = learner.classify(x)
    assert learner.shared_tasks == list(TASKS)
    assert np.mean([one.label == label for one, label in zip(answers, y, strict=True)]) > 0.9
    assert all(one.label in TASKS[one.task] and 0 < one.probability <= 1 for one in answers)


def test_the_order_of_tasks_makes_no_difference() -> None:
    x, _ = digits(test=True)
    first, second = (learned(order).classify(x) for order in (["low", "middle", "high"], ["high", "low", "middle"]))
    assert [one[:2] for one in first] == [one[:2] for one in second]
    assert np.allclose([one.probability for one in first], [one.probability for one in second], atol=1e-4)


def test_a_folder_keeps_the_head_and_another_process_sees_what_was_added(tmp_path: Path) -> None:
    x, y = digits(test=True)
    with learned(["low"], tmp_path / "m.crwn") as writer, crwn.Learner.load(tmp_path / "m.crwn") as reader:
        assert {one.task for one in reader.classify(x)} == {"low"}
        mine = np.isin(y, TASKS["high"])
        writer.learn("high", x[mine], y[mine], method="exact", progress=False)
        assert writer.share("high", x[mine], y[mine]) == 7
        assert {one.task for one in reader.classify(x)} == {"low", "high"}
        writer.save(tmp_path / "copy.crwn")
        before = writer.classify(x)
    with crwn.Learner.load(tmp_path / "copy.crwn") as copy:
        assert copy.classify(x) == before
        copy.forget("low")
        assert {one.task for one in copy.classify(x)} == {"high"}
        copy.forget("high")
        with pytest.raises(TaskError, match="no task has shared"):
            copy.classify(x)


@pytest.mark.parametrize("how", [{"method": "exact"}, {"batches": 5}])
def test_a_task_learned_from_the_start_has_to_be_shared_again(how: dict[str, Any]) -> None:
    learner = learned(["low", "high"])
    x, y = digits()
    mine = np.isin(y, TASKS["high"])
    learner.learn("high", x[mine], [f"digit {label}" for label in y[mine]], replace=True, progress=False, **how)
    assert learner.shared_tasks == ["low"], "the labels that it was shared with may be gone"
    assert {one.task for one in learner.classify(x)} == {"low"}
    assert learner.share("high", x[mine], [f"digit {label}" for label in y[mine]]) == 7
    assert {one.label for one in learner.classify(x[mine])} >= {"digit 6", "digit 9"}


def test_many_tasks_learned_again_and_a_task_extended_by_its_old_rows() -> None:
    learner = learned(["low", "high"])
    x, y = digits()
    low, high = (np.isin(y, TASKS[name]) for name in ("low", "high"))
    learner.extend("high", x[high][:9], y[high][:9], old=(x[high], y[high]), batches=3, progress=False)
    assert learner.shared_tasks == ["low", "high"], "its old rows are still of the task"
    learner.learn_many({"low": (x[low], y[low])}, batches=3, replace=True, progress=False)
    assert learner.shared_tasks == ["high"]


def test_what_cannot_be_shared_is_refused_and_changes_nothing() -> None:
    learner = learned(["low"])
    x, y = digits()
    with pytest.raises(TaskError, match="none"):
        learner.share("none", x, y)
    with pytest.raises(DataError, match='task "low" has no class'):
        learner.share("low", x, y)
    with pytest.raises(DataError, match="labels"):
        learner.share("low", x[:3], [0, 1])
    with pytest.raises(DataError, match="scaled by"):
        learner.share("low", x[y == 0].astype("float32"), y[y == 0])
    learner.learn("number", x.astype("float32"), y.astype("float32"), kind="regression", batches=2, progress=False)
    with pytest.raises(ConfigError, match="is a regression"):
        learner.share("number", x, y)
    assert learner.shared_tasks == ["low"]
    with pytest.raises(TaskError, match="no task has shared its rows yet"):
        crwn.Learner(crwn.FlyNet(64, 640, 10, seed=0)).classify(x)


def test_a_damaged_head_is_refused(tmp_path: Path) -> None:
    learned(["low"], tmp_path / "m.crwn").close()
    file = tmp_path / "m.crwn" / "statistics" / "shared.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with (
        crwn.Learner.load(tmp_path / "m.crwn") as learner,
        pytest.raises(crwn.CRWNError, match="shared head is damaged"),
    ):
        learner.classify(digits()[0])


def photos(kinds: tuple[int, ...], *, seed: int, count: int = 40) -> tuple[Any, Any]:
    """Photos of noise with a bright stripe of rows, whose place is their class; uint8 `[count, 3, 16, 16]`."""
    random = np.random.default_rng(seed)
    y = random.choice(kinds, count)
    x = random.integers(0, 120, (count, 3, 16, 16))
    for row, kind in enumerate(y):
        x[row, kind % 3, 2 * (kind // 3) : 2 * (kind // 3) + 2] += 130
    return x.astype("uint8"), y


def test_the_head_infers_the_task_of_photos_which_have_no_density() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 32, 2, stride=2), nn.ReLU(), nn.Flatten())
    learner = crwn.Learner(crwn.BackboneNet(crwn.ImageBackbone(module, size=16), 3, seed=0, gains=2, mirror=False))
    tasks = {f"t{at}": (3 * at, 3 * at + 1, 3 * at + 2) for at in range(4)}
    for at, (name, kinds) in enumerate(tasks.items()):
        learner.learn(name, *photos(kinds, seed=at, count=120), method="exact", progress=False)
    new = {name: photos(kinds, seed=100 + at) for at, (name, kinds) in enumerate(tasks.items())}
    with pytest.raises(TaskError, match=r"share the rows of all of them \(crwn share\)"):
        learner.infer_rows(new["t0"][0])
    for at, (name, kinds) in enumerate(list(tasks.items())):
        if at == 3:
            with pytest.raises(TaskError, match="share the rows"):  # three of four tasks are in the head
                learner.infer_rows(new["t0"][0])
        learner.share(name, *photos(kinds, seed=at, count=120))
    for name, (x, y) in new.items():
        found = learner.infer_rows(x)
        assert np.mean([one.task == name for one in found]) > 0.9
        assert all(one.probability is not None and 0 < one.probability <= 1 for one in found)
        assert np.mean(learner.predict(x, infer_task="rows") == y) > 0.85
        ranking = learner.infer_task(x[:4])
        assert [ranking[0].task, len(ranking)] == [name, 4]
        assert ranking[0].probability == max(one.probability or 0 for one in ranking)
        assert ranking.none_of_these is not None
    learner.forget("t3")
    assert {one.task for one in learner.infer_rows(new["t3"][0])} <= {"t0", "t1", "t2"}
