"""Learners on disk: saved, loaded, shared, interrupted, and on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sqlalchemy import Connection, event

from crwn import Learner, NeuroModNet
from crwn.contexts.bank import open_bank
from crwn.contexts.bank.sql import SqlBank
from crwn.contexts.dtype import Store
from crwn.errors import BankError, CRWNError, TaskError
from crwn.training import Step
from digit_rows import Data, permuted
from learners import network, quickly


def test_a_folder_loads_in_a_new_process_and_predicts_the_same(digits: Data, tmp_path: Path) -> None:
    folder = tmp_path / "digits.crwn"
    x = digits[0][:100]
    with Learner(network(weights="hadamard"), bank=folder) as learner:
        learner.learn_many({f"p{k}": permuted(digits, k) for k in range(3)}, batches=5, progress=False)
        expected = [learner.predict_proba(x, task=f"p{k}") for k in range(3)]
    assert sorted(path.name for path in folder.iterdir()) == ["bank.sqlite", "model.json"]
    np.save(tmp_path / "x.npy", x)
    script = (
        "import sys, numpy as np, crwn\n"
        "learner = crwn.Learner.load(sys.argv[1])\n"
        "x = np.load(sys.argv[2])\n"
        "np.save(sys.argv[3], np.stack([learner.predict_proba(x, task=name) for name in learner.tasks]))\n"
    )
    words = [sys.executable, "-c", script, str(folder), str(tmp_path / "x.npy"), str(tmp_path / "out.npy")]
    subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())})
    assert np.stack(expected).tobytes() == np.load(tmp_path / "out.npy").tobytes()


def test_36_tasks_of_fc4096_hold_under_one_and_a_half_megabytes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, size=(20, 784), dtype=np.uint8), random.integers(0, 10, 20)
    model = NeuroModNet(784, (4096, 4096), 10, seed=0, weights="hadamard")
    folder = tmp_path / "m.crwn"
    with Learner(model, bank=folder) as learner:
        learner.learn_many({f"task-{k:02}": (x, y) for k in range(36)}, batches=1, progress=False)
        before = learner.predict_proba(x, task="task-17")
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    assert size < 1.5e6, f"{size:,} bytes"
    with Learner.load(folder) as again:
        assert len(again.tasks) == 36
        assert before.tobytes() == again.predict_proba(x, task="task-17").tobytes()


def test_save_and_load_are_identity(learner: Learner, digits: Data, tmp_path: Path) -> None:
    for k in range(2):
        quickly(learner, f"p{k}", permuted(digits, k))
    learner.save(tmp_path / "a.crwn")
    with Learner.load(tmp_path / "a.crwn") as again:
        assert again.fingerprint == learner.fingerprint
        assert [again.context(name) for name in again.tasks] == [learner.context(name) for name in learner.tasks]
        again.save(tmp_path / "a.crwn")
        again.save(tmp_path / "b.crwn")
    with Learner.load(tmp_path / "b.crwn") as other:
        assert other.tasks == ["p0", "p1"]
    assert "2 tasks in memory" in repr(learner)
    assert "closed" in repr(other)


def test_saving_over_another_models_folder_is_refused(learner: Learner, digits: Data, tmp_path: Path) -> None:
    quickly(learner, "t", permuted(digits, 0))
    learner.save(tmp_path / "m.crwn")
    other = Learner(NeuroModNet(64, (128,), 10, seed=1))
    quickly(other, "t", permuted(digits, 1))
    with pytest.raises(CRWNError, match="was made with model"):
        other.save(tmp_path / "m.crwn")
    with pytest.raises(CRWNError, match="was made with model"):
        Learner(other.model, bank=tmp_path / "m.crwn")
    with Learner.load(tmp_path / "m.crwn") as again:
        assert again.context("t") == learner.context("t")


def test_a_folder_without_its_description_is_not_given_a_wrong_one(
    learner: Learner, digits: Data, tmp_path: Path
) -> None:
    quickly(learner, "t", permuted(digits, 0))
    learner.save(tmp_path / "m.crwn")
    (tmp_path / "m.crwn" / "model.json").unlink()
    with pytest.raises(BankError, match="keeps contexts of model"):
        Learner(NeuroModNet(64, (128,), 10, seed=1), bank=tmp_path / "m.crwn")
    with Learner(network(), bank=tmp_path / "m.crwn") as again:
        assert again.tasks == ["t"]


@pytest.mark.parametrize("store", ["float16", "int8"])
def test_smaller_stores_predict_nearly_the_same(store: Store, digits: Data, tmp_path: Path) -> None:
    data = permuted(digits, 0, 400)
    exact = Learner(network())
    quickly(exact, "t", data, batches=40)
    with Learner(network(), bank=tmp_path / "m.crwn", store=store) as small:
        small.add(exact.context("t"))
        agree = small.predict(data[0]) == exact.predict(data[0])
    assert agree.mean() > 0.95
    with Learner.load(tmp_path / "m.crwn") as again:
        assert again.bank.store == store


def test_an_interruption_loses_nothing_already_learned(digits: Data, tmp_path: Path) -> None:
    tasks = {f"p{k}": permuted(digits, k, 100 + 10 * k) for k in range(4)}  # different lengths: no stacks

    def stop(step: Step) -> None:
        if step.names == ("p2",) and step.step == 2:
            raise KeyboardInterrupt

    with Learner(network(), bank=tmp_path / "m.crwn") as learner:
        with pytest.raises(KeyboardInterrupt):
            learner.learn_many(tasks, batches=4, progress=False, callbacks=[stop])
        assert learner.tasks == ["p0", "p1"]
        left = {name: data for name, data in tasks.items() if name not in learner.tasks}
        learner.learn_many(left, batches=4, progress=False)
    with Learner.load(tmp_path / "m.crwn") as again:
        assert again.tasks == list(tasks)
        undisturbed = Learner(network())
        undisturbed.learn_many(tasks, batches=4, progress=False)
        for name in tasks:
            mine, theirs = again.context(name).tensors, undisturbed.context(name).tensors
            assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_an_interrupted_replacement_keeps_the_old_context(digits: Data, tmp_path: Path) -> None:
    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    with Learner(network(), bank=tmp_path / "m.crwn") as learner:
        old = quickly(learner, "t", permuted(digits, 0))
        for how in ("resume", "replace"):
            with pytest.raises(KeyboardInterrupt):
                quickly(learner, "t", permuted(digits, 0), callbacks=[stop], **{how: True})
        assert learner.context("t") == old
        quickly(learner, "after", permuted(digits, 1))


def test_a_full_disk_is_one_line_and_loses_nothing(digits: Data, tmp_path: Path) -> None:
    with Learner(network(), bank=tmp_path / "m.crwn") as learner:
        quickly(learner, "t", permuted(digits, 0))
        assert isinstance(learner.bank, SqlBank)
        with learner.bank._engine.connect() as connection:  # the only way to fill a disk in a test
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

        @event.listens_for(learner.bank._engine, "engine_connect")
        def full(connection: Connection) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        def fill() -> None:
            for k in range(50):
                quickly(learner, f"more-{k}", permuted(digits, k), batches=1)

        with pytest.raises(BankError, match="full") as caught:
            fill()
        assert "\n" not in str(caught.value)
        kept = learner.tasks
        assert "t" in kept
        assert learner.predict(digits[0][:5], task="t").shape == (5,)
    with Learner.load(tmp_path / "m.crwn") as again:
        assert again.tasks == kept
        assert again.bank.verify() == []


def test_two_learners_on_one_folder(digits: Data, tmp_path: Path) -> None:
    with Learner(network(), bank=tmp_path / "m.crwn") as one, Learner.load(tmp_path / "m.crwn") as two:
        quickly(one, "a", permuted(digits, 0))
        quickly(two, "b", permuted(digits, 1))
        assert one.tasks == two.tasks == ["a", "b"]
        x = digits[0][:50]
        assert (one.predict(x, task="b") == two.predict(x, task="b")).all()
        with pytest.raises(TaskError, match='"a" is in the bank already'):
            quickly(two, "a", permuted(digits, 2))
        quickly(two, "a", permuted(digits, 2), replace=True, batches=20)
        assert "a" in one.refresh()
        assert one.predict_proba(x, task="a").tobytes() == two.predict_proba(x, task="a").tobytes()
        one.forget("b")
        two.refresh()
        with pytest.raises(TaskError, match='"b"'):
            two.predict(x, task="b")


def test_a_bank_without_a_folder(digits: Data, tmp_path: Path) -> None:
    with open_bank(tmp_path / "alone.sqlite") as bank:
        learner = Learner(network(), bank=bank)
        quickly(learner, "t", permuted(digits, 0))
        assert bank.names() == ["t"]


def test_a_closed_learner_says_so(digits: Data, tmp_path: Path) -> None:
    learner = Learner(network(), bank=tmp_path / "m.crwn")
    learner.close()
    learner.close()
    with pytest.raises(BankError, match="closed"):
        learner.predict(digits[0][:2], task="t")


def test_what_was_forgotten_is_not_saved_again(learner: Learner, digits: Data, tmp_path: Path) -> None:
    for name in ("a", "b"):
        quickly(learner, name, digits)
    learner.save(tmp_path / "m")
    with Learner.load(tmp_path / "m") as other:
        quickly(other, "theirs", digits)
    learner.forget("a")
    learner.save(tmp_path / "m")
    with Learner.load(tmp_path / "m") as again:
        assert again.tasks == ["b", "theirs"]
    quickly(learner, "a", digits)
    learner.save(tmp_path / "m")
    with Learner.load(tmp_path / "m") as again:
        assert again.tasks == ["a", "b", "theirs"]
