"""The learner: everything people do with it, and everything that may go wrong on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sqlalchemy import event
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import crwn
from crwn import Learner, NeuroModNet, Recipe, Rows
from crwn.bank import open_bank
from crwn.data import load
from crwn.errors import BankError, ConfigError, ContextError, CRWNError, DataError, TaskError
from crwn.rows import named_generator
from crwn.training import Step

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def digits() -> Data:
    found = load("digits")
    return found.x_train.flatten(1).numpy(), found.y_train.numpy()


def turned(data: Data, k: int, rows: int = 128) -> Data:
    """Permuted digits: a task of its own for every k."""
    order = named_generator("pixels", k).permutation(64)
    return data[0][:rows, order], data[1][:rows]


def network(**settings: object) -> NeuroModNet:
    return NeuroModNet(64, (128,), 10, seed=0, **settings)


@pytest.fixture
def learner() -> Learner:
    return Learner(network())


@pytest.fixture(scope="module")
def taught(digits: Data) -> Learner:
    """Four tasks, learned well enough to tell them apart; tests only read from it."""
    made = Learner(NeuroModNet(64, (256,), 10, seed=0))
    made.learn_many({f"p{k}": turned(digits, k, 1000) for k in range(4)}, batches=80, progress=False)
    return made


def quickly(learner: Learner, name: str, data: Data, **settings: object) -> crwn.Context:
    return learner.learn(name, *data, **{"batches": 3, "progress": False, **settings})


def test_learning_gives_and_keeps_a_context(learner: Learner, digits: Data) -> None:
    context = quickly(learner, "upright", digits, batches=60)
    assert context.name == "upright"
    assert context.classes == tuple(range(10))
    assert context.numbers == 64 + 128 + 2
    assert context.model == learner.fingerprint
    assert context.info["rows"] == len(digits[0])
    assert context.info["batches"] == 60
    assert learner.tasks == ["upright"]
    assert learner.context("upright") == context
    assert learner.score(*digits, task="upright") > 0.85
    assert learner.score(*digits) == learner.score(*digits, task="upright")
    assert learner.predict(digits[0][:3]).dtype == np.int64


def test_twenty_more_tasks_change_no_bit_of_the_first(digits: Data) -> None:
    learner = Learner(NeuroModNet(64, (256, 256), 10, seed=0, weights="hadamard"))
    quickly(learner, "first", turned(digits, 0), batches=20)
    x = turned(digits, 0, 1300)[0]
    before = learner.predict_proba(x, task="first")
    context = learner.context("first").to_bytes()
    learner.learn_many({f"more-{k}": turned(digits, k + 1) for k in range(20)}, batches=2, progress=False)
    assert len(learner.tasks) == 21
    again = learner.predict_proba(x, task="first")
    assert before.tobytes() == again.tobytes()
    assert learner.context("first").to_bytes() == context
    for size in (1, 7, 256):
        parts = [learner.predict_proba(x[at : at + size], task="first") for at in range(0, 256, size)]
        assert np.abs(np.concatenate(parts)[:256] - before[:256]).max() < 1e-5
    names = ["first" if at % 3 == 0 else f"more-{at % 20}" for at in range(300)]
    mixed = learner.predict_proba(x[:300], task=names)
    assert max(np.abs(mixed[at] - before[at]).max() for at in range(0, 300, 3)) < 1e-5


def test_mixed_tasks_in_one_pass(taught: Learner, digits: Data) -> None:
    x = np.concatenate([turned(digits, k, 30)[0] for k in range(4)])
    names = [f"p{k}" for k in range(4) for _ in range(30)]
    together = taught.predict(x, task=names)
    alone = np.concatenate([taught.predict(turned(digits, k, 30)[0], task=f"p{k}") for k in range(4)])
    assert (together == alone).all()
    assert taught.score(x, np.tile(digits[1][:30], 4), task=names) > 0.8
    assert (taught.predict(x, task=np.array(names)) == together).all()
    few = Learner(taught.model, bank=taught.bank, resident=2)
    assert (few.predict(x, task=names) == together).all()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (("no", "yes"), "U"),
        ((3, -7), "i"),
        ((False, True), "b"),
        ((0.25, 0.5), "f"),
        ((None, "something"), "O"),
        ((("left", 1), ("right", 2)), "O"),
        ((1, "one"), "O"),
    ],
    ids=str,
)
def test_labels_of_any_kind(learner: Learner, digits: Data, labels: tuple[object, object], kind: str) -> None:
    x = digits[0][:200]
    y = [labels[int(value >= 5)] for value in digits[1][:200]]
    quickly(learner, "t", (x, y), batches=40)
    found = learner.predict(x, task="t")
    assert found.dtype.kind == kind
    assert set(found.tolist()) <= set(labels)
    assert learner.score(x, y, task="t") > 0.75
    assert learner.predict_proba(x, task="t").shape == (200, 2)


def test_tasks_with_different_classes(learner: Learner, digits: Data) -> None:
    x, y = digits
    three = y < 3
    learner.learn_many(
        {"ten": (x[:100], y[:100]), "three": (x[three][:100], y[three][:100]), "odd": (x[:100], y[:100] % 2 == 1)},
        batches=20,
        progress=False,
    )
    assert [len(learner.context(name).classes) for name in ("ten", "three", "odd")] == [10, 3, 2]
    proba = learner.predict_proba(x[:3], task=["ten", "three", "odd"])
    assert [len(row) for row in proba] == [10, 3, 2]
    assert [float(row.sum()) for row in proba] == pytest.approx([1.0] * 3, abs=1e-5)
    assert learner.predict(x[:3], task=["ten", "three", "odd"]).tolist()[2] in (True, False)
    assert set(learner.predict(x, task="three").tolist()) <= {0, 1, 2}
    with pytest.raises(DataError, match="has 20 classes, this model has 10 outputs"):
        quickly(learner, "wide", (x[:100], np.arange(100) % 20))


def test_which_task_must_be_said(learner: Learner, digits: Data) -> None:
    x = digits[0][:4]
    with pytest.raises(TaskError, match="no tasks yet"):
        learner.predict(x)
    with pytest.raises(TaskError, match="no tasks yet"):
        learner.infer_task(x)
    quickly(learner, "a", turned(digits, 0))
    quickly(learner, "b", turned(digits, 1))
    with pytest.raises(TaskError, match=r"2 tasks: say which with task=, or pass infer_task=True"):
        learner.predict(x)
    with pytest.raises(TaskError, match='"c"'):
        learner.predict(x, task="c")
    with pytest.raises(TaskError, match='"c"'):
        learner.predict(x, task=["a", "b", "c", "a"])
    with pytest.raises(DataError, match="4 rows but 2 task names"):
        learner.predict(x, task=["a", "b"])
    with pytest.raises(ConfigError, match="give one of them"):
        learner.predict(x, task="a", infer_task=True)


def test_the_task_is_inferred(taught: Learner, digits: Data) -> None:
    for k in range(4):
        x = turned(digits, k, 40)[0]
        ranked = taught.infer_task(x)
        assert ranked[0].task == f"p{k}"
        assert sorted(one.task for one in ranked) == ["p0", "p1", "p2", "p3"]
        assert all(0 <= one.score <= 1 for one in ranked)
        assert (taught.predict(x, infer_task=True) == taught.predict(x, task=f"p{k}")).all()
    assert [one.task for one in taught.infer_task(digits[0][:5], tasks=["p2"])] == ["p2"]
    with pytest.raises(DataError, match="no rows"):
        taught.infer_task(digits[0][:0])


def test_nearest_contexts(taught: Learner) -> None:
    found = taught.nearest("p0", count=2)
    assert len(found) == 2
    assert {name for name, _ in taught.nearest("p0", count=99)} == {"p1", "p2", "p3"}
    assert all(-1 <= value <= 1 for _, value in found)
    with pytest.raises(TaskError, match='"p9"'):
        taught.nearest("p9")


@pytest.mark.parametrize("kind", ["gaussian", "hadamard", "flynet", "local"])
def test_merge_gives_a_plain_module_of_the_same_answers(kind: str, digits: Data) -> None:
    if kind == "flynet":
        model: nn.Module = crwn.FlyNet(64, 320, 10, seed=0)
    elif kind == "local":
        model = network(modulation="local")
    else:
        model = network(weights=kind)
    learner = Learner(model)
    x, y = digits[0][:200], digits[1][:200]
    quickly(learner, "ten", (x, y), batches=10)
    quickly(learner, "two", (x, y > 4), batches=10)
    for name, classes in (("ten", 10), ("two", 2)):
        plain = learner.merge(name)
        out = plain(torch.from_numpy(x)).softmax(1).numpy()
        assert out.shape == (200, classes)
        assert np.abs(out - learner.predict_proba(x, task=name)).max() < 1e-4
        assert not any("Modulated" in type(module).__name__ for module in plain.modules())
        assert not any(parameter.requires_grad for parameter in plain.parameters())
    assert np.abs(learner.predict_proba(x, task="ten").sum(1) - 1).max() < 1e-5


def test_learn_many_equals_one_after_another(digits: Data) -> None:
    tasks = {f"p{k}": turned(digits, k) for k in range(3)} | {"shorter": turned(digits, 3, 100)}
    together, alone = Learner(network()), Learner(network())
    contexts = together.learn_many(tasks, batches=10, progress=False)
    assert [context.name for context in contexts] == list(tasks)
    for name, data in tasks.items():
        one = quickly(alone, name, data, batches=10)
        for key, value in one.tensors.items():
            assert torch.allclose(together.context(name).tensors[key], value, rtol=1e-3, atol=5e-4), (name, key)
    assert together.learn_many({}, progress=False) == []


def test_resume_replace_and_duplicates(learner: Learner, digits: Data) -> None:
    data = turned(digits, 0)
    first = quickly(learner, "a", data, batches=10)
    with pytest.raises(TaskError, match=r'task "a" is there already: resume=True goes on, replace=True starts anew'):
        quickly(learner, "a", data)
    with pytest.raises(TaskError, match='"a" is there already'):
        learner.learn_many({"b": data, "a": data}, batches=2, progress=False)
    assert learner.tasks == ["a"]
    resumed = quickly(learner, "a", data, resume=True, batches=10)
    assert resumed.info["loss"] < first.info["loss"]
    anew = quickly(learner, "a", data, replace=True, batches=10)
    assert all(torch.equal(anew.tensors[key], first.tensors[key]) for key in first.tensors)
    assert learner.context("a") == anew
    with pytest.raises(ConfigError, match="both resume and replace"):
        quickly(learner, "a", data, resume=True, replace=True)
    with pytest.raises(TaskError, match='"b"'):
        quickly(learner, "b", data, resume=True)
    with pytest.raises(ConfigError, match="both resume and start"):
        quickly(learner, "a", data, resume=True, start="a")


def test_resume_keeps_classes_and_scaling(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0)
    before = quickly(learner, "a", (x, y))
    after = quickly(learner, "a", (x[y < 5] // 2, y[y < 5]), resume=True)
    assert after.classes == before.classes
    assert after.info["scaling"] == before.info["scaling"]
    with pytest.raises(DataError, match="label 77 is not a class"):
        quickly(learner, "a", (x, y + 77), resume=True)
    assert learner.context("a") == after


def test_validation_share_and_data(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0, 400)
    shared = quickly(learner, "share", (x, y), validation=0.25, batches=40)
    assert shared.info["rows"] == 300
    assert shared.info["accuracy"] > 40
    given = quickly(learner, "given", (x, y), validation=(x[:50], y[:50]), batches=40)
    assert given.info["rows"] == 400
    stopped = quickly(
        learner,
        "stopped",
        (x[:60], y[:60]),
        validation=(x[60:], (y[60:] + 3) % 10),
        recipe=Recipe(batches=500, check_every=5, patience=2),
        batches=None,
    )
    assert stopped.info["batches"] < 500


def test_sample_weights(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0, 100)
    doubled = np.concatenate([x, x]), np.concatenate([y, (y + 1) % 10])
    quickly(learner, "t", doubled, sample_weight=np.repeat([1.0, 0.0], 100), batches=80)
    assert learner.score(x, y, task="t") > 0.9


def test_datasets_loaders_and_rows(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0)
    pairs = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    plain = quickly(learner, "arrays", (x, y))
    for name, data in (("dataset", pairs), ("loader", DataLoader(pairs, batch_size=50))):
        # Batch order comes from the task's name: learn under the same name.
        other = Learner(network())
        found = other.learn("arrays", data, batches=3, progress=False)
        assert all(torch.equal(found.tensors[key], plain.tensors[key]) for key in plain.tensors), name
        assert (other.predict(data) == learner.predict(x)).all()
        assert other.score(data) == learner.score(x, y)
    rows = Rows(torch.from_numpy(x), torch.from_numpy(y), prepare=lambda batch: batch.float() / 255)
    quickly(learner, "rows", (rows, None), batches=40)
    assert learner.score(rows, y, task="rows") > 0.6
    with pytest.raises(DataError, match="labels are missing"):
        learner.learn("none", x, progress=False)


def test_rows_are_scaled_by_the_task_alone_or_mixed(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0)
    quickly(learner, "t", (x, y), batches=20)
    rows = Rows(torch.from_numpy(x))
    expected = learner.predict_proba(x, task="t")
    assert np.abs(learner.predict_proba(rows, task="t") - expected).max() < 1e-5
    assert np.abs(np.stack(learner.predict_proba(rows, task=["t"] * len(x))) - expected).max() < 1e-5


def test_images_are_flattened_for_the_model(learner: Learner, digits: Data) -> None:
    x, y = turned(digits, 0)
    quickly(learner, "t", (x.reshape(-1, 8, 8), y))
    assert (learner.predict(x) == learner.predict(x.reshape(-1, 1, 8, 8))).all()


def test_a_warm_start(learner: Learner, digits: Data) -> None:
    data = turned(digits, 0, 300)
    order = np.argsort(data[1], kind="stable")
    by_class = data[0][order], data[1][order]
    quickly(learner, "same", data, batches=60)
    quickly(learner, "other", turned(digits, 1, 300), batches=60)
    cold = quickly(learner, "cold", by_class, batches=5)
    warm = quickly(learner, "warm", by_class, batches=5, start="nearest")
    named = quickly(learner, "named", by_class, batches=5, start="same")
    assert warm.info["loss"] < cold.info["loss"]
    assert named.info["loss"] < cold.info["loss"]
    with pytest.raises(TaskError, match='"none"'):
        quickly(learner, "x", by_class, start="none")
    assert quickly(Learner(network()), "first", data, start="nearest").name == "first"


def test_forget(learner: Learner, digits: Data) -> None:
    for k in range(3):
        quickly(learner, f"p{k}", turned(digits, k))
    x = turned(digits, 2)[0]
    kept = learner.predict_proba(x, task="p2")
    learner.forget("p1")
    assert learner.tasks == ["p0", "p2"]
    with pytest.raises(TaskError, match='"p1"'):
        learner.predict(x, task="p1")
    with pytest.raises(TaskError, match='"p1"'):
        learner.forget("p1")
    assert kept.tobytes() == learner.predict_proba(x, task="p2").tobytes()


def test_empty_predictions(learner: Learner, digits: Data) -> None:
    quickly(learner, "t", turned(digits, 0))
    assert learner.predict(np.zeros((0, 64)), task="t").shape == (0,)
    assert learner.predict_proba(np.zeros((0, 64)), task="t").shape == (0, 10)
    assert learner.predict(np.zeros((0, 64)), task=[]).shape == (0,)
    with pytest.raises(DataError, match="no rows to score"):
        learner.score(np.zeros((0, 64)), [], task="t")
    with pytest.raises(DataError, match="2 rows but 1 labels"):
        learner.score(np.zeros((2, 64)), [1], task="t")


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((3, 63)), r"rows have shape \(63,\), this model takes \(64,\)"),
        (np.full((3, 64), np.nan), "row 0 has NaN"),
        (np.zeros(64), "this model takes"),
        ([["a"] * 64], "must be numbers"),
    ],
)
def test_bad_rows_are_refused_for_learning_and_predicting(learner: Learner, digits: Data, x: object, said: str) -> None:
    quickly(learner, "t", turned(digits, 0))
    for call in (
        lambda: learner.learn("bad", x, [0] * len(x), progress=False),
        lambda: learner.predict(x, task="t"),
        lambda: learner.infer_task(x),
    ):
        with pytest.raises(DataError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert learner.tasks == ["t"]


def test_a_model_that_does_not_say_its_outputs() -> None:
    with pytest.raises(ConfigError, match=r"set module\.classes"):
        Learner(nn.Linear(2, 2)).learn("a", np.zeros((2, 2)), [0, 1], progress=False)


def test_divergence_keeps_nothing_and_says_what_to_do(learner: Learner, digits: Data) -> None:
    with pytest.raises(CRWNError, match=r'learning task "t" diverged .*: lower the rate'):
        quickly(learner, "t", turned(digits, 0), recipe=Recipe(optimizer="sgd", rate=1e12), batches=30)
    assert learner.tasks == []


def test_a_context_of_another_model_is_refused(learner: Learner, digits: Data) -> None:
    other = Learner(NeuroModNet(64, (128,), 10, seed=1))
    context = quickly(other, "t", turned(digits, 0))
    with pytest.raises(ContextError, match=r"was learned by model .*: load the model it belongs to"):
        learner.add(context)
    same = Learner(network())
    quickly(learner, "mine", turned(digits, 0))
    same.add(learner.context("mine"))
    assert (same.predict(digits[0]) == learner.predict(digits[0])).all()
    with pytest.raises(TaskError, match='"mine"'):
        same.add(learner.context("mine"))
    same.add(learner.context("mine"), replace=True)


@pytest.mark.parametrize("what", ["learn", "merge"])
def test_learning_in_the_middle_of_another_threads_prediction(digits: Data, what: str) -> None:
    """A prediction has its own context inside the model for a moment: nobody may take it for the model's."""
    learner, quiet = Learner(network()), Learner(network())
    for one in (learner, quiet):
        quickly(one, "t", turned(digits, 0), batches=20)
        quickly(one, "other", turned(digits, 1), batches=20)
    inside, go_on = threading.Event(), threading.Event()

    def pause(*_: object) -> None:
        if threading.current_thread() is predicting:
            inside.set()
            go_on.wait(20)

    def work() -> None:
        results.append(quickly(learner, "new", turned(digits, 2)) if what == "learn" else learner.merge("other"))

    results: list[object] = []
    predicting = threading.Thread(target=learner.predict, args=(digits[0][:5], ["t"] * 5))
    working = threading.Thread(target=work)
    learner.model.register_forward_pre_hook(pause)
    predicting.start()
    assert inside.wait(20)
    working.start()
    working.join(0.3)
    go_on.set()
    predicting.join()
    working.join()
    if what == "learn":
        expected = quickly(quiet, "new", turned(digits, 2))
        assert all(torch.equal(learner.context("new").tensors[key], expected.tensors[key]) for key in expected.tensors)
    else:
        x = torch.from_numpy(digits[0][:5])
        assert torch.equal(results[0](x), quiet.merge("other")(x))


def test_mixed_predictions_while_tasks_are_inferred(taught: Learner, digits: Data) -> None:
    """Both need the model and the contexts, and must not wait for each other in opposite orders."""
    x = turned(digits, 0, 40)[0]
    ends = time.monotonic() + 2

    def again(call: Callable[[], object]) -> None:
        while time.monotonic() < ends:
            call()

    mixed = threading.Thread(target=again, args=(lambda: taught.predict(x, task=["p0", "p1"] * 20),), daemon=True)
    inferring = threading.Thread(target=again, args=(lambda: taught.infer_task(x),), daemon=True)
    for thread in (mixed, inferring):
        thread.start()
    for thread in (mixed, inferring):
        thread.join(30)
        assert not thread.is_alive()


class TestOnDisk:
    def test_a_folder_loads_in_a_new_process_and_predicts_the_same(self, digits: Data, tmp_path: Path) -> None:
        folder = tmp_path / "digits.crwn"
        x = digits[0][:100]
        with Learner(network(weights="hadamard"), bank=folder) as learner:
            learner.learn_many({f"p{k}": turned(digits, k) for k in range(3)}, batches=5, progress=False)
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

    def test_36_tasks_of_fc4096_hold_under_one_and_a_half_megabytes(self, tmp_path: Path) -> None:
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

    def test_save_and_load_are_identity(self, learner: Learner, digits: Data, tmp_path: Path) -> None:
        for k in range(2):
            quickly(learner, f"p{k}", turned(digits, k))
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

    def test_saving_over_another_models_folder_is_refused(self, learner: Learner, digits: Data, tmp_path: Path) -> None:
        quickly(learner, "t", turned(digits, 0))
        learner.save(tmp_path / "m.crwn")
        other = Learner(NeuroModNet(64, (128,), 10, seed=1))
        quickly(other, "t", turned(digits, 1))
        with pytest.raises(CRWNError, match="was made with model"):
            other.save(tmp_path / "m.crwn")
        with pytest.raises(CRWNError, match="was made with model"):
            Learner(other.model, bank=tmp_path / "m.crwn")
        with Learner.load(tmp_path / "m.crwn") as again:
            assert again.context("t") == learner.context("t")

    def test_a_folder_without_its_description_is_not_given_a_wrong_one(
        self, learner: Learner, digits: Data, tmp_path: Path
    ) -> None:
        quickly(learner, "t", turned(digits, 0))
        learner.save(tmp_path / "m.crwn")
        (tmp_path / "m.crwn" / "model.json").unlink()
        with pytest.raises(BankError, match="keeps contexts of model"):
            Learner(NeuroModNet(64, (128,), 10, seed=1), bank=tmp_path / "m.crwn")
        with Learner(network(), bank=tmp_path / "m.crwn") as again:
            assert again.tasks == ["t"]

    @pytest.mark.parametrize("store", ["float16", "int8"])
    def test_smaller_stores_predict_nearly_the_same(self, store: str, digits: Data, tmp_path: Path) -> None:
        data = turned(digits, 0, 400)
        exact = Learner(network())
        quickly(exact, "t", data, batches=40)
        with Learner(network(), bank=tmp_path / "m.crwn", store=store) as small:
            small.add(exact.context("t"))
            agree = small.predict(data[0]) == exact.predict(data[0])
        assert agree.mean() > 0.95
        with Learner.load(tmp_path / "m.crwn") as again:
            assert again.bank.store == store

    def test_an_interruption_loses_nothing_already_learned(self, digits: Data, tmp_path: Path) -> None:
        tasks = {f"p{k}": turned(digits, k, 100 + 10 * k) for k in range(4)}  # different lengths: no stacks

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

    def test_an_interrupted_replacement_keeps_the_old_context(self, digits: Data, tmp_path: Path) -> None:
        def stop(step: Step) -> None:
            raise KeyboardInterrupt

        with Learner(network(), bank=tmp_path / "m.crwn") as learner:
            old = quickly(learner, "t", turned(digits, 0))
            for how in ("resume", "replace"):
                with pytest.raises(KeyboardInterrupt):
                    quickly(learner, "t", turned(digits, 0), callbacks=[stop], **{how: True})
            assert learner.context("t") == old
            quickly(learner, "after", turned(digits, 1))

    def test_a_full_disk_is_one_line_and_loses_nothing(self, digits: Data, tmp_path: Path) -> None:
        with Learner(network(), bank=tmp_path / "m.crwn") as learner:
            quickly(learner, "t", turned(digits, 0))
            with learner.bank._engine.connect() as connection:  # the only way to fill a disk in a test
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

            @event.listens_for(learner.bank._engine, "engine_connect")
            def full(connection: object) -> None:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

            def fill() -> None:
                for k in range(50):
                    quickly(learner, f"more-{k}", turned(digits, k), batches=1)

            with pytest.raises(BankError, match="full") as caught:
                fill()
            assert "\n" not in str(caught.value)
            kept = learner.tasks
            assert "t" in kept
            assert learner.predict(digits[0][:5], task="t").shape == (5,)
        with Learner.load(tmp_path / "m.crwn") as again:
            assert again.tasks == kept
            assert again.bank.verify() == []

    def test_two_learners_on_one_folder(self, digits: Data, tmp_path: Path) -> None:
        with Learner(network(), bank=tmp_path / "m.crwn") as one, Learner.load(tmp_path / "m.crwn") as two:
            quickly(one, "a", turned(digits, 0))
            quickly(two, "b", turned(digits, 1))
            assert one.tasks == two.tasks == ["a", "b"]
            x = digits[0][:50]
            assert (one.predict(x, task="b") == two.predict(x, task="b")).all()
            with pytest.raises(TaskError, match='"a" is there already'):
                quickly(two, "a", turned(digits, 2))
            quickly(two, "a", turned(digits, 2), replace=True, batches=20)
            assert "a" in one.refresh()
            assert one.predict_proba(x, task="a").tobytes() == two.predict_proba(x, task="a").tobytes()
            one.forget("b")
            two.refresh()
            with pytest.raises(TaskError, match='"b"'):
                two.predict(x, task="b")

    def test_a_bank_without_a_folder(self, digits: Data, tmp_path: Path) -> None:
        with open_bank(tmp_path / "alone.sqlite") as bank:
            learner = Learner(network(), bank=bank)
            quickly(learner, "t", turned(digits, 0))
            assert bank.names() == ["t"]

    def test_a_closed_learner_says_so(self, digits: Data, tmp_path: Path) -> None:
        learner = Learner(network(), bank=tmp_path / "m.crwn")
        learner.close()
        learner.close()
        with pytest.raises(BankError, match="closed"):
            learner.predict(digits[0][:2], task="t")


def test_the_best_structure_learns_keeps_and_answers_mixed_rows_like_any_other(tmp_path: Path) -> None:
    digits = load("digits")
    x, y = digits.x_train.flatten(1).numpy(), digits.y_train.numpy()
    model = crwn.NeuroModNet(64, (96, 96), 10, seed=0, weights="patches", norm="layer")
    learner = crwn.Learner(model, bank=tmp_path / "best.crwn")
    learner.learn_many({"as is": (x, y), "mirrored": (x[:, ::-1].copy(), y)}, batches=150, progress=False)
    assert learner.score(x, y, task="as is") > 0.9
    rows, names = np.concatenate([x[:8], x[:8, ::-1]]), ["as is"] * 8 + ["mirrored"] * 8
    alone = np.concatenate([learner.predict(rows[:8], task="as is"), learner.predict(rows[8:], task="mirrored")])
    assert (learner.predict(rows, task=names) == alone).all()
    learner.close()
    with crwn.Learner.load(tmp_path / "best.crwn") as again:
        assert (again.predict(rows, task=names) == alone).all()


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


@pytest.mark.parametrize("keep", [0, -1, 2.5, True])
@pytest.mark.parametrize("method", ["one-shot", "sketch", "auto"])
def test_how_many_tasks_to_try_must_be_a_number(taught: Learner, digits: Data, keep: object, method: str) -> None:
    with pytest.raises(ConfigError, match=f"keep must be a whole number of at least 1, got {keep}"):
        taught.infer_task(digits[0][:8], method=method, keep=keep)


def test_a_task_forgotten_while_it_is_stored_answers_no_more(learner: Learner, digits: Data) -> None:
    put = learner.bank.put_many

    def put_and_forget(contexts: list[crwn.Context], **settings: bool) -> None:
        put(contexts, **settings)
        learner.forget("t")

    learner.bank.put_many = put_and_forget
    quickly(learner, "t", digits)
    assert learner.tasks == []
    with pytest.raises(TaskError, match='"t" is not in the bank'):
        learner.predict(digits[0][:2], task="t")


def test_tasks_must_be_pairs(learner: Learner, digits: Data) -> None:
    x, y = digits
    with pytest.raises(DataError, match=r'task "c" must be \(x, y\), got 3 parts'):
        learner.learn_many({"c": (x, y, y)}, batches=2, progress=False)
    assert [one.name for one in learner.learn_many({"c": [x, y]}, batches=2, progress=False)] == ["c"]


def test_facts_of_ones_own_are_kept_and_handed_on(learner: Learner, digits: Data) -> None:
    quickly(learner, "t", digits, info={"site": "north"})
    resumed = quickly(learner, "t", digits, resume=True)
    assert resumed.info["site"] == "north"
    assert "rows" in resumed.info
    assert "site" not in quickly(learner, "t", digits, replace=True).info
    with pytest.raises(ConfigError, match="info cannot hold accuracy, rows"):
        quickly(learner, "u", digits, info={"accuracy": None, "rows": 3})
