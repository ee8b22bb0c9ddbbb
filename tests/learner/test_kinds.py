"""Regression and multilabel tasks: learned, predicted, scored, merged, saved, and refused where they make no sense."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crwn import Learner, NeuroModNet
from crwn.errors import ConfigError, DataError, TaskError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype("float32")
PRICE = 1000 + 200 * X[:, 0] - 100 * X[:, 1]
LABELS = [[name for name, has in zip(("red", "round"), row > 0, strict=True) if has] for row in X[:, :2]]


@pytest.fixture(scope="module")
def learner() -> Learner:
    made = Learner(NeuroModNet(3, (256,), 4, seed=0))
    made.learn("price", X, PRICE, kind="regression", batches=200, progress=False)
    made.learn("tags", X, LABELS, kind="multilabel", batches=200, progress=False)
    made.learn("sign", X, X[:, 0] > 0, batches=100, progress=False)
    return made


def test_a_regression_predicts_numbers_in_their_units(learner: Learner) -> None:
    found = learner.predict(X, task="price")
    assert found.shape == (300,)
    assert np.corrcoef(found, PRICE)[0, 1] > 0.97
    assert learner.score(X, PRICE, "price") > 0.95
    info = learner.context("price").info
    assert (info.kind, info.accuracy, info.own_entropy) == ("regression", None, None)
    assert info.r2 is not None
    assert info.r2 > 0.95
    with pytest.raises(ConfigError, match='"price" is a regression: it predicts numbers and has no probabilities'):
        learner.predict_proba(X, task="price")


def test_several_numbers_per_row(learner: Learner) -> None:
    both = np.column_stack([PRICE, -PRICE])
    other = Learner(NeuroModNet(3, (256,), 2, seed=0))
    other.learn("both", X, both, kind="regression", batches=200, progress=False)
    assert other.predict(X).shape == (300, 2)
    assert other.score(X, both) > 0.9


def test_multilabel_rows_get_tuples_of_labels(learner: Learner) -> None:
    found = learner.predict(X[:5], task="tags")
    assert all(isinstance(one, tuple) for one in found)
    assert learner.score(X, LABELS, "tags") > 0.9
    assert learner.context("tags").classes == ("red", "round")
    shares = learner.predict_proba(X, task="tags")
    assert shares.shape == (300, 2)
    assert ((shares[:, 0] > 0.5) == (X[:, 0] > 0)).mean() > 0.9
    assert not np.allclose(shares.sum(axis=1), 1.0)


def test_an_array_of_zeros_and_ones_is_multilabel_too() -> None:
    learner = Learner(NeuroModNet(3, (128,), 4, seed=0))
    matrix = (X[:, :2] > 0).astype(int)
    learner.learn("tags", X, matrix, kind="multilabel", batches=100, progress=False)
    assert learner.context("tags").classes == (0, 1)
    assert learner.score(X, matrix, "tags") > 0.9


def test_rows_of_mixed_kinds(learner: Learner) -> None:
    found = learner.predict(X[:3], task=["price", "tags", "sign"])
    assert isinstance(found[0], float)
    assert isinstance(found[1], tuple)
    assert isinstance(found[2], bool | np.bool_)
    with pytest.raises(ConfigError, match="scored one task at a time"):
        learner.score(X[:2], [1, 2], ["price", "sign"])


def test_merged_saved_and_resumed(learner: Learner, tmp_path: Path) -> None:
    merged = learner.merge("price")(torch.from_numpy(X))
    assert np.allclose(merged[:, 0].numpy(), learner.predict(X, task="price"), rtol=1e-3)
    learner.save(tmp_path / "m.crwn")
    with Learner.load(tmp_path / "m.crwn") as again:
        assert np.allclose(again.predict(X, task="price"), learner.predict(X, task="price"))
        context = again.learn("price", X, PRICE, resume=True, batches=5, progress=False)
        assert context.info.kind == "regression"
        with pytest.raises(ConfigError, match="was learned as regression, not multilabel"):
            again.learn("price", X, LABELS, kind="multilabel", resume=True, progress=False)


def test_task_inference_is_for_classification(learner: Learner) -> None:
    assert [one.task for one in learner.infer_task(X[:50])] == ["sign"]
    with pytest.raises(TaskError, match="task inference is for classification"):
        learner.infer_task(X[:50], tasks=["price"])


def test_learn_many_stacks_only_one_kind() -> None:
    learner = Learner(NeuroModNet(3, (32,), 4, seed=0))
    contexts = learner.learn_many({"a": (X, X[:, 0] > 0), "b": (X, X[:, 1] > 0)}, batches=20, progress=False)
    assert [context.info.kind for context in contexts] == ["classification"] * 2


@pytest.mark.parametrize(
    ("y", "kind", "message"),
    [
        (["a"] * 300, "regression", "its targets must be numbers"),
        (np.full(300, np.nan), "regression", "target of row 0 .* is NaN"),
        (["red"] * 300, "multilabel", "give a list of labels for every row"),
        (np.full((300, 2), 2), "multilabel", "must be 0 and 1"),
        ([[]] * 300, "multilabel", "no row of task .* has a label"),
        (np.ones((300, 2)), "multilabel", "nothing to learn"),
        (["a"] * 300, "classification", "all 300 rows of task .* have the label 'a'"),
        (np.zeros((300, 5)), "regression", "has 5 numbers per row, this model has 4 outputs"),
    ],
)
def test_targets_that_do_not_fit_are_refused(y: object, kind: str, message: str) -> None:
    learner = Learner(NeuroModNet(3, (8,), 4, seed=0))
    with pytest.raises(DataError, match=message):
        learner.learn("t", X, y, kind=kind, progress=False)  # type: ignore[arg-type]
    assert learner.tasks == []


def test_an_unknown_kind_is_refused() -> None:
    learner = Learner(NeuroModNet(3, (8,), 4, seed=0))
    with pytest.raises(ConfigError, match='unknown kind of task "ranking"'):
        learner.learn("t", X, PRICE, kind="ranking", progress=False)  # type: ignore[arg-type]
