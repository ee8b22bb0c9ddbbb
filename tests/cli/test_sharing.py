"""`crwn extend`, `crwn share` and `crwn classify`: what they print, and one line for what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import SMALL, Crwn
from crwn import Learner
from crwn.data import load


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Digits 0 to 5, and 6 and 7, in two files."""
    digits = load("digits")
    x, y = digits.x_train.flatten(1).numpy(), digits.y_train.numpy()
    for name, chosen in (("first", y < 6), ("later", (y == 6) | (y == 7))):
        np.savez(tmp_path / f"{name}.npz", x=x[chosen][:400], y=y[chosen][:400])
    return tmp_path


def test_new_classes_are_added_without_old_rows(crwn: Crwn, parts: Path) -> None:
    model = parts / "m.crwn"
    crwn("learn", model, "d", parts / "first.npz", "--model", "flynet", "--exact", "--keep-statistics")
    done = crwn("extend", model, "d", parts / "later.npz", "--old", parts / "first.npz", "--json")
    assert done["new_classes"] == [6, 7]
    assert done["classes"] == list(range(8))
    assert 0 < done["mean_change"] <= done["largest_change"]
    assert 0 <= done["answers_changed"] < 0.2
    assert crwn("predict", model, parts / "later.npz", "--task", "d", "--json")["accuracy"] > 80
    printed = crwn("extend", model, "d", parts / "later.npz")
    assert "8 classes, none new" in printed
    assert '"none"' in crwn("extend", model, "none", parts / "later.npz", fails=True)
    assert "batches is for tasks that are learned again" in crwn(
        "extend", model, "d", parts / "later.npz", "--batches", 5, fails=True
    )


def test_a_task_learned_by_batches_needs_its_old_rows(crwn: Crwn, parts: Path) -> None:
    model = parts / "m.crwn"
    crwn("learn", model, "d", parts / "first.npz", *SMALL)
    assert "keeps no sums of its rows" in crwn("extend", model, "d", parts / "later.npz", fails=True)
    done = crwn("extend", model, "d", parts / "later.npz", "--old", parts / "first.npz", "--batches", 30, "--json")
    assert done["classes"] == list(range(8))


def test_rows_without_a_task_are_classified(crwn: Crwn, parts: Path) -> None:
    model = parts / "m.crwn"
    assert "model" in crwn("classify", model, parts / "first.npz", fails=True)
    for name in ("first", "later"):
        crwn("learn", model, name, parts / f"{name}.npz", "--model", "flynet", "--exact")
    assert "no task has shared its rows yet" in crwn("classify", model, parts / "first.npz", fails=True)
    assert "6 classes of 1 task" in crwn("share", model, "first", parts / "first.npz")
    assert crwn("share", model, "later", parts / "later.npz", "--json")["classes"] == 8
    answers = crwn("classify", model, parts / "later.npz", "--json")["answers"]
    assert sum(one["task"] == "later" for one in answers) > 0.9 * len(answers)
    assert len(crwn("classify", model, parts / "later.npz").splitlines()) == len(answers)
    assert "has no class" in crwn("share", model, "first", parts / "later.npz", fails=True)
    crwn("forget", model, "later")
    assert {one["task"] for one in crwn("classify", model, parts / "later.npz", "--json")["answers"]} == {"first"}


def test_a_forgotten_task_leaves_no_sums(crwn: Crwn, parts: Path) -> None:
    model = parts / "m.crwn"
    for name in ("first", "later"):
        crwn("learn", model, name, parts / f"{name}.npz", "--model", "flynet", "--exact", "--keep-statistics")
        crwn("share", model, name, parts / f"{name}.npz")
    before = {path.name for path in (model / "statistics").iterdir()}
    assert crwn("forget", model, "later", "--json")["tasks"] == 1
    after = {path.name for path in (model / "statistics").iterdir()}
    assert len(before - after) == 1
    assert "shared.safetensors" in after
    assert '"later"' in crwn("forget", model, "later", fails=True)
    answers = crwn("classify", model, parts / "later.npz", "--json")["answers"]
    assert {one["task"] for one in answers} == {"first"}
    with Learner.load(model) as learner:
        assert learner.shared_tasks == ["first"]
