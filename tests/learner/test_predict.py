"""Predictions of the learner: one task, a task per row, the inferred task, a merged module."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest
import torch
from torch import nn

import crwn
from crwn import Learner, Rows
from crwn.data import load
from crwn.errors import ConfigError, DataError, TaskError
from crwn.learner.task_inference import Method
from digit_rows import Data, permuted
from learners import network, quickly


def test_mixed_tasks_in_one_pass(taught: Learner, digits: Data) -> None:
    x = np.concatenate([permuted(digits, k, 30)[0] for k in range(4)])
    names = [f"p{k}" for k in range(4) for _ in range(30)]
    together = taught.predict(x, task=names)
    alone = np.concatenate([taught.predict(permuted(digits, k, 30)[0], task=f"p{k}") for k in range(4)])
    assert (together == alone).all()
    assert taught.score(x, np.tile(digits[1][:30], 4), task=names) > 0.8
    assert (taught.predict(x, task=cast(list[str], np.array(names))) == together).all()
    few = Learner(taught.model, bank=taught.bank, resident=2)
    assert (few.predict(x, task=names) == together).all()


def test_which_task_must_be_said(learner: Learner, digits: Data) -> None:
    x = digits[0][:4]
    with pytest.raises(TaskError, match="no tasks yet"):
        learner.predict(x)
    with pytest.raises(TaskError, match="no tasks yet"):
        learner.infer_task(x)
    quickly(learner, "a", permuted(digits, 0))
    quickly(learner, "b", permuted(digits, 1))
    with pytest.raises(TaskError, match=r"2 tasks: give one with task=, or pass infer_task=True"):
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
        x = permuted(digits, k, 40)[0]
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


def test_rows_are_scaled_by_the_task_alone_or_mixed(learner: Learner, digits: Data) -> None:
    x, y = permuted(digits, 0)
    quickly(learner, "t", (x, y), batches=20)
    rows = Rows(torch.from_numpy(x))
    expected = learner.predict_proba(x, task="t")
    assert np.abs(learner.predict_proba(rows, task="t") - expected).max() < 1e-5
    assert np.abs(np.stack(learner.predict_proba(rows, task=["t"] * len(x))) - expected).max() < 1e-5


def test_images_are_flattened_for_the_model(learner: Learner, digits: Data) -> None:
    x, y = permuted(digits, 0)
    quickly(learner, "t", (x.reshape(-1, 8, 8), y))
    assert (learner.predict(x) == learner.predict(x.reshape(-1, 1, 8, 8))).all()


def test_empty_predictions(learner: Learner, digits: Data) -> None:
    quickly(learner, "t", permuted(digits, 0))
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
def test_bad_rows_are_refused_for_learning_and_predicting(learner: Learner, digits: Data, x: Any, said: str) -> None:
    quickly(learner, "t", permuted(digits, 0))
    for call in (
        lambda: learner.learn("bad", x, [at % 2 for at in range(len(x))], progress=False),
        lambda: learner.predict(x, task="t"),
        lambda: learner.infer_task(x),
    ):
        with pytest.raises(DataError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert learner.tasks == ["t"]


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
        out = plain(torch.tensor(x)).softmax(1).numpy()
        assert out.shape == (200, classes)
        assert np.abs(out - learner.predict_proba(x, task=name)).max() < 1e-4
        assert not any("Modulated" in type(module).__name__ for module in plain.modules())
        assert not any(parameter.requires_grad for parameter in plain.parameters())
    assert np.abs(learner.predict_proba(x, task="ten").sum(1) - 1).max() < 1e-5


@pytest.mark.parametrize("what", ["learn", "merge"])
def test_learning_in_the_middle_of_another_threads_prediction(digits: Data, what: str) -> None:
    """A prediction has its own context inside the model for a moment: nobody may take it for the model's."""
    learner, quiet = Learner(network()), Learner(network())
    for one in (learner, quiet):
        quickly(one, "t", permuted(digits, 0), batches=20)
        quickly(one, "other", permuted(digits, 1), batches=20)
    inside, go_on = threading.Event(), threading.Event()

    def pause(*_: object) -> None:
        if threading.current_thread() is predicting:
            inside.set()
            go_on.wait(120)

    def work() -> None:
        results.append(quickly(learner, "new", permuted(digits, 2)) if what == "learn" else learner.merge("other"))

    results: list[Any] = []
    predicting = threading.Thread(target=learner.predict, args=(digits[0][:5], ["t"] * 5))
    working = threading.Thread(target=work)
    learner.model.register_forward_pre_hook(pause)
    predicting.start()
    assert inside.wait(120)
    working.start()
    working.join(0.3)
    go_on.set()
    predicting.join()
    working.join()
    if what == "learn":
        expected = quickly(quiet, "new", permuted(digits, 2))
        assert all(torch.equal(learner.context("new").tensors[key], expected.tensors[key]) for key in expected.tensors)
    else:
        x = torch.tensor(digits[0][:5])
        assert torch.equal(results[0](x), quiet.merge("other")(x))


def test_mixed_predictions_while_tasks_are_inferred(taught: Learner, digits: Data) -> None:
    """Both need the model and the contexts, and must not wait for each other in opposite orders."""
    x = permuted(digits, 0, 40)[0]

    def again(call: Callable[[], object]) -> None:
        for _ in range(100):
            call()

    mixed = threading.Thread(target=again, args=(lambda: taught.predict(x, task=["p0", "p1"] * 20),), daemon=True)
    inferring = threading.Thread(target=again, args=(lambda: taught.infer_task(x),), daemon=True)
    for thread in (mixed, inferring):
        thread.start()
    for thread in (mixed, inferring):
        thread.join(300)
        assert not thread.is_alive(), "they wait for each other"


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


@pytest.mark.parametrize("keep", [0, -1, 2.5, True])
@pytest.mark.parametrize("method", get_args(Method))
def test_how_many_tasks_to_try_must_be_a_number(taught: Learner, digits: Data, keep: Any, method: Method) -> None:
    with pytest.raises(ConfigError, match=f"keep must be a whole number of at least 1, got {keep}"):
        taught.infer_task(digits[0][:8], method=method, keep=keep)
