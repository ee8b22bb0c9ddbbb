"""Backups: one file of a model folder that is in use, and the folder made again from it."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crwn import Learner, NeuroModNet
from crwn.contexts import Context
from crwn.contexts.bank import Bank, open_bank
from crwn.errors import BankError, ConfigError, CRWNError, ModelError
from crwn.insight.collection import from_learner
from crwn.learner import folder as model_folder
from crwn.learner.backup import back_up, restore
from crwn.serve.atlas import AtlasMaker
from disks import fill, small_disk

X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Learner(NeuroModNet(4, (8,), 2, seed=0), bank=tmp_path / "a.crwn") as learner:
        learner.learn("first", X, X[:, 0] > 0, batches=2, progress=False)
    return tmp_path / "a.crwn"


def test_a_folder_in_use_is_backed_up_and_restored(folder: Path, tmp_path: Path) -> None:
    with Learner.load(folder) as learner:
        learner.learn("second", X, X[:, 1] > 0, batches=2, progress=False)
        assert (folder / "bank.sqlite-wal").stat().st_size  # the task is in the log only
        assert back_up(folder, tmp_path / "b.backup")["tasks"] == 2
        learner.learn("third", X, X[:, 2] > 0, batches=2, progress=False)
        expected = learner.predict_proba(X, task="second")
        shutil.copy(folder / "bank.sqlite-wal", tmp_path / "log")
    shutil.copy(tmp_path / "log", folder / "bank.sqlite-wal")  # left over, as after a power cut
    with pytest.raises(ModelError, match=r"exists: choose another name, or --replace"):
        restore(tmp_path / "b.backup", folder)
    assert restore(tmp_path / "b.backup", folder, replace=True) == {"tasks": 2}
    with Learner.load(folder) as learner:
        assert learner.tasks == ["first", "second"]
        assert learner.bank.verify() == []
        np.testing.assert_array_equal(learner.predict_proba(X, task="second"), expected)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.crwn", "b.backup", "log"]


def test_on_a_full_disk_nothing_is_called_damaged(folder: Path, tmp_path: Path) -> None:
    """Neither a put, nor opening, nor a backup advises to restore a bank that is healthy, and nothing is lost."""
    with small_disk(tmp_path / "disk", 1_000_000) as disk:
        shutil.copytree(folder, disk / "a.crwn")
        learner, stored = Learner.load(disk / "a.crwn"), ["first"]
        one = learner.context("first")
        with pytest.raises(BankError, match="the disk is full: free space"):
            _put_until_it_fails(learner, one, stored)
        assert learner.predict(X, task="first").shape == (20,)
        with contextlib.suppress(BankError):  # the log cannot be copied into the file, and stays beside it
            learner.close()
        rest = fill(disk)
        with pytest.raises(CRWNError, match=r"disk is full|No space left") as refused:
            back_up(disk / "a.crwn", disk / "b.backup")
        assert "restore" not in str(refused.value)
        rest.unlink()
        with contextlib.suppress(BankError), Learner.load(disk / "a.crwn") as learner:
            assert learner.tasks == sorted(stored)
            assert learner.bank.verify() == []


def _put_until_it_fails(learner: Learner, one: Context, stored: list[str]) -> None:
    while len(stored) < 1000:
        name = f"more {len(stored)}"
        learner.add(Context(name, one.tensors, one.classes, one.model, info={}))
        stored.append(name)


def test_an_open_learner_notices_a_restored_folder(folder: Path, tmp_path: Path) -> None:
    back_up(folder, tmp_path / "b.backup")
    with Learner.load(folder) as learner:
        restore(tmp_path / "b.backup", folder, replace=True)
        with pytest.raises(BankError, match="was replaced by another file while it was open"):
            learner.forget("first")


def test_damaged_backups_and_banks_are_refused_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    backup = tmp_path / "b.backup"
    back_up(folder, backup)
    data = backup.read_bytes()
    here = sorted(tmp_path.iterdir())
    for at in range(0, len(data), len(data) // 40):
        backup.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        with contextlib.suppress(CRWNError):
            restore(backup, tmp_path / "new.crwn")
            with Learner.load(tmp_path / "new.crwn") as learner:  # a byte that no reader of zip files looks at
                assert learner.bank.verify() == []
            shutil.rmtree(tmp_path / "new.crwn")
        assert sorted(tmp_path.iterdir()) == here
    for wrong in (b"", b"x" * 100, data[: len(data) // 2]):
        backup.write_bytes(wrong)
        with pytest.raises(ModelError, match=r"is damaged or no backup of crwn .*: use another backup"):
            restore(backup, tmp_path / "new.crwn")
    with zipfile.ZipFile(backup, "w") as archive:
        archive.writestr("../evil", "x")
        archive.writestr("backup.json", json.dumps({"format": 1, "files": {"../evil": "0"}}))
    with pytest.raises(ModelError, match="use another backup"):
        restore(backup, tmp_path / "new.crwn")
    with pytest.raises(ModelError, match="there is no backup"):
        restore(tmp_path / "none", tmp_path / "new.crwn")
    whole = (folder / "bank.sqlite").read_bytes()
    with open_bank(folder / "bank.sqlite") as bank:
        values = bank.get("first").tensors["layers.0.v"].numpy().tobytes()
    (folder / "bank.sqlite").write_bytes(whole.replace(values, bytes(len(values)), 1))
    with pytest.raises(BankError, match=r"damaged: 1 task; nothing is written"):
        back_up(folder, tmp_path / "c.backup")
    assert sorted(tmp_path.iterdir()) == here


def test_commands(folder: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "crwn"]
    backup, new = str(tmp_path / "b.backup"), str(tmp_path / "new.crwn")
    done = subprocess.run([*program, "backup", str(folder), backup], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("backed up 1 task of ")
    done = subprocess.run([*program, "restore", backup, new, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["tasks"] == 1


class Interrupted(Exception):
    """Stands for a kill in the middle of a save."""


def test_a_save_that_is_interrupted_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "AT_ONCE", 2)

    def half(bank: Bank) -> Iterator[Context]:
        for number, context in enumerate(bank.get_many(bank.names())):
            if number == 3:
                raise Interrupted
            yield context

    learner = Learner(NeuroModNet(4, (8,), 2, seed=0))
    learner.learn_many({f"new {at}": (X, X[:, at % 4] > 0) for at in range(6)}, batches=2, progress=False)
    learner.learn("first", X, X[:, 3] > 0, batches=2, progress=False)
    learner.forget("first")
    whole = model_folder._all_contexts
    with monkeypatch.context() as broken:
        broken.setattr(model_folder, "_all_contexts", half)
        for target in (folder, tmp_path / "b.crwn"):
            with pytest.raises(Interrupted):
                learner.save(target)
    with Learner.load(folder) as before:
        assert before.tasks == ["first"]
    with pytest.raises(CRWNError, match=r"it has no model\.json"):
        Learner.load(tmp_path / "b.crwn")
    assert model_folder._all_contexts is whole
    for target in (folder, tmp_path / "b.crwn"):
        learner.save(target)
        with Learner.load(target) as after:
            assert after.tasks == learner.tasks


def test_pickling_a_learner_says_what_to_do() -> None:
    learner = Learner(NeuroModNet(4, (8,), 2, seed=0))
    with pytest.raises(ConfigError, match=r"learner.save\(path\), then crwn.Learner.load\(path\)"):
        pickle.dumps(learner)


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden": [10**9, 10**9]},
        {"in_features": 10**15},
        {"hidden": [8], "classes": 10**40},
        {"hidden": [50_000] * 1000},  # none of them large by itself
        {"hidden": [2**22] * 10_000, "weights": "hadamard"},
    ],
)
def test_a_description_of_impossible_sizes_is_refused_before_weights_are_made(
    sizes: dict[str, object], folder: Path
) -> None:
    record = json.loads((folder / "model.json").read_text())
    record["config"] |= sizes
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match=r"does not describe a network .*make more than") as caught:
        Learner.load(folder)
    assert "\n" not in str(caught.value)


def test_a_description_that_is_no_description_is_refused(folder: Path) -> None:
    for text in ('{"format": 1, "kind": ' + " " * 2**25 + "}", "[" * 100_000):
        (folder / "model.json").write_text(text)
        with pytest.raises(ModelError, match=r"model.json cannot be read \(.*it is damaged") as caught:
            Learner.load(folder)
        assert len(str(caught.value)) < 500


def test_a_backup_that_unpacks_to_more_than_it_is_is_refused(folder: Path, tmp_path: Path) -> None:
    back_up(folder, tmp_path / "good")
    with (
        zipfile.ZipFile(tmp_path / "good") as good,
        zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        record = json.loads(good.read("backup.json"))
        record["files"]["zeros"] = "0" * 64
        for name in good.namelist():
            if name != "backup.json":
                bomb.writestr(name, good.read(name), zipfile.ZIP_STORED)
        bomb.writestr("zeros", bytes(2**26))
        bomb.writestr("backup.json", json.dumps(record), zipfile.ZIP_STORED)
    with pytest.raises(ModelError, match=r"'zeros' is compressed, which backups are not"):
        restore(tmp_path / "bomb", tmp_path / "new.crwn")
    assert not (tmp_path / "new.crwn").exists()


def test_one_damaged_task_is_left_out_of_maps_and_neighbours(folder: Path) -> None:
    import sqlite3

    with Learner.load(folder) as learner:
        for at in range(1, 4):
            learner.learn(f"task {at}", X, X[:, at] > 0, batches=2, progress=False)
    with contextlib.closing(sqlite3.connect(folder / "bank.sqlite")) as connection, connection:
        where = "sequence = (SELECT sequence FROM crwn_contexts WHERE name = 'task 2')"
        connection.execute(f"UPDATE crwn_payloads SET data = zeroblob(100) WHERE {where}")
    with Learner.load(folder) as learner:
        assert sorted(name for name, _ in learner.nearest("first")) == ["task 1", "task 3"]
        with pytest.raises(CRWNError, match="task 2"):
            learner.nearest("task 2")
        with pytest.warns(UserWarning, match="left out: context of task"):
            assert from_learner(learner).names == ["first", "task 1", "task 3"]
        assert [point.task for point in AtlasMaker(learner).make(10).points] == ["first", "task 1", "task 3"]
