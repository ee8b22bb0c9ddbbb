"""Learning with the learner: tasks, options, resuming, forgetting, and what may go wrong on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import crwn
from crwn import Learner, NeuroModNet, Recipe, Rows
from crwn.errors import ConfigError, ContextError, CRWNError, DataError, TaskError
from digit_rows import Data, permuted
from learners import network, quickly


def test_learning_gives_and_keeps_a_context(learner: Learner, digits: Data) -> None:
    context = quickly(learner, "upright", digits, batches=60)
    assert context.name == "upright"
    assert context.classes == tuple(range(10))
    assert context.params == 64 + 128 + 2
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
    quickly(learner, "first", permuted(digits, 0), batches=20)
    x = permuted(digits, 0, 1300)[0]
    before = learner.predict_proba(x, task="first")
    context = learner.context("first").to_bytes()
    learner.learn_many({f"more-{k}": permuted(digits, k + 1) for k in range(20)}, batches=2, progress=False)
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


def test_learn_many_equals_one_after_another(digits: Data) -> None:
    tasks = {f"p{k}": permuted(digits, k) for k in range(3)} | {"shorter": permuted(digits, 3, 100)}
    together, alone = Learner(network()), Learner(network())
    contexts = together.learn_many(tasks, batches=10, progress=False)
    assert [context.name for context in contexts] == list(tasks)
    for name, data in tasks.items():
        one = quickly(alone, name, data, batches=10)
        for key, value in one.tensors.items():
            assert torch.allclose(together.context(name).tensors[key], value, rtol=1e-3, atol=5e-4), (name, key)
    assert together.learn_many({}, progress=False) == []


def test_resume_replace_and_duplicates(learner: Learner, digits: Data) -> None:
    data = permuted(digits, 0)
    first = quickly(learner, "a", data, batches=10)
    with pytest.raises(TaskError, match="in the bank already: resume=True continues it, replace=True starts over"):
        quickly(learner, "a", data)
    with pytest.raises(TaskError, match='"a" is in the bank already'):
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
    x, y = permuted(digits, 0)
    before = quickly(learner, "a", (x, y))
    after = quickly(learner, "a", (x[y < 5] // 2, y[y < 5]), resume=True)
    assert after.classes == before.classes
    assert after.info["scaling"] == before.info["scaling"]
    with pytest.raises(DataError, match="label 77 is not a class"):
        quickly(learner, "a", (x, y + 77), resume=True)
    assert learner.context("a") == after


def test_validation_share_and_data(learner: Learner, digits: Data) -> None:
    x, y = permuted(digits, 0, 400)
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
    x, y = permuted(digits, 0, 100)
    doubled = np.concatenate([x, x]), np.concatenate([y, (y + 1) % 10])
    quickly(learner, "t", doubled, sample_weight=np.repeat([1.0, 0.0], 100), batches=80)
    assert learner.score(x, y, task="t") > 0.9


def test_datasets_loaders_and_rows(learner: Learner, digits: Data) -> None:
    x, y = permuted(digits, 0)
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


def test_a_warm_start(learner: Learner, digits: Data) -> None:
    data = permuted(digits, 0, 300)
    order = np.argsort(data[1], kind="stable")
    by_class = data[0][order], data[1][order]
    quickly(learner, "same", data, batches=60)
    quickly(learner, "other", permuted(digits, 1, 300), batches=60)
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
        quickly(learner, f"p{k}", permuted(digits, k))
    x = permuted(digits, 2)[0]
    kept = learner.predict_proba(x, task="p2")
    learner.forget("p1")
    assert learner.tasks == ["p0", "p2"]
    with pytest.raises(TaskError, match='"p1"'):
        learner.predict(x, task="p1")
    with pytest.raises(TaskError, match='"p1"'):
        learner.forget("p1")
    assert kept.tobytes() == learner.predict_proba(x, task="p2").tobytes()


def test_a_model_that_does_not_say_its_outputs() -> None:
    with pytest.raises(ConfigError, match=r"set module\.classes"):
        _ = Learner(crwn.neuromodulate(nn.Linear(2, 2), seed=0)).outputs


def test_divergence_keeps_nothing_and_says_what_to_do(learner: Learner, digits: Data) -> None:
    with pytest.raises(CRWNError, match=r'learning task "t" diverged .*: lower the rate'):
        quickly(learner, "t", permuted(digits, 0), recipe=Recipe(optimizer="sgd", rate=1e12), batches=30)
    assert learner.tasks == []


def test_a_context_of_another_model_is_refused(learner: Learner, digits: Data) -> None:
    other = Learner(NeuroModNet(64, (128,), 10, seed=1))
    context = quickly(other, "t", permuted(digits, 0))
    with pytest.raises(ContextError, match=r"was learned by model .*: load the model it belongs to"):
        learner.add(context)
    same = Learner(network())
    quickly(learner, "mine", permuted(digits, 0))
    same.add(learner.context("mine"))
    assert (same.predict(digits[0]) == learner.predict(digits[0])).all()
    with pytest.raises(TaskError, match='"mine"'):
        same.add(learner.context("mine"))
    same.add(learner.context("mine"), replace=True)


def test_a_task_forgotten_while_it_is_stored_stays_forgotten(
    learner: Learner, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = learner.bank.put_many

    def put_and_forget(contexts: list[crwn.Context], **settings: Any) -> None:
        put(contexts, **settings)
        learner.forget("t")

    monkeypatch.setattr(learner.bank, "put_many", put_and_forget)
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


def test_a_misspelt_option_is_refused(learner: Learner, digits: Data) -> None:
    x, y = digits
    wrong: Any = {"sampel_weight": None}
    with pytest.raises(TypeError, match="sampel_weight"):
        learner.prepare("a", x, y, **wrong)
