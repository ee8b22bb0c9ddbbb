"""Data made ready for training: classes, scaling and held-out rows, checked before anything is learned."""

import datetime
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from crwn import Rows
from crwn.errors import ConfigError, ContextError, DataError, TaskError
from crwn.learner.prepare import prepare_task
from crwn.training.task import PreparedTask

X = np.random.default_rng(0).normal(3, 2, size=(100, 4)).astype(np.float32)
Y = np.array(["no", "yes"] * 50)


def prepared(x: object = X, y: object = Y, **settings: Any) -> PreparedTask:
    return prepare_task("t", x, y, shape=(4,), outputs=3, **settings)


def test_classes_scaling_and_rows() -> None:
    made = prepared()
    assert made.labels == ("no", "yes")
    assert made.classes == 2
    assert made.rows.labels(slice(None)).tolist() == [0, 1] * 50
    inputs = made.rows.inputs(slice(None))
    assert float(inputs.mean()) == pytest.approx(0, abs=1e-5)
    assert float(inputs.std()) == pytest.approx(1, abs=1e-2)


def places(rows: Rows | None) -> list[int]:
    """Where the rows stand in the data they were selected from."""
    assert rows is not None
    assert rows.index is not None
    return [int(at) for at in rows.index]


def test_a_share_is_held_out_by_seed_and_name() -> None:
    made, again, other = (prepared(validation=0.2, seed=seed) for seed in (0, 0, 1))
    assert (len(made.rows), len(places(made.validation))) == (80, 20)
    assert places(made.validation) == places(again.validation) != places(other.validation)
    assert sorted(places(made.rows) + places(made.validation)) == list(range(100))


@pytest.mark.parametrize(
    "validation",
    [
        (X[:10], Y[:10]),
        [X[:10], Y[:10].tolist()],
        (torch.from_numpy(X[:10]), Y[:10]),
        DataLoader(cast(Dataset[Any], list(zip(torch.from_numpy(X[:10]), Y[:10].tolist(), strict=True))), batch_size=4),
    ],
    ids=["pair", "list", "tensor", "loader"],
)
def test_validation_data_of_any_kind_get_the_tasks_scaling(validation: object) -> None:
    made = prepared(validation=validation)
    assert made.validation is not None
    assert torch.allclose(made.validation.inputs(slice(None)), made.rows.inputs(slice(0, 10)))
    assert made.validation.labels(slice(None)).tolist() == [0, 1] * 5
    assert len(made.rows) == 100


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        (0.0, "share between 0 and 1"),
        (1.0, "share between 0 and 1"),
        (True, "share between 0 and 1"),
        ("some", "got 'some'"),
        (0.001, "leaves nothing"),
        (X, "got 'ndarray'"),
        ((X,), "got 1 parts"),
        ((X[:0], Y[:0]), "no rows"),
        ((X[:3], ["no", "yes", "maybe"]), "'maybe' is not a class"),
        ((X[:3], Y[:2]), "3 rows but 2 labels"),
        ((X[:3, :2], Y[:3]), r"shape \(2,\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_validation_that_cannot_be_used_is_one_line(validation: object, said: str) -> None:
    with pytest.raises((ConfigError, DataError), match=said) as caught:
        prepared(validation=validation)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X, None, "labels are missing"),
        (5, None, "labels are missing"),
        (X, Y[:5], "100 rows but 5 labels"),
        (X[:0], Y[:0], 'task "t" has no rows'),
        (X[:, :3], Y, r"rows have shape \(3,\), this model takes \(4,\)"),
        (np.where(X > 8, np.nan, X), Y, "NaN or infinite"),
        (X, np.arange(100) % 4, "has 4 classes, this model has 3 outputs"),
        (X, np.full(100, np.nan), "NaN"),
    ],
)
def test_bad_data_is_one_clear_line(x: object, y: object, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        prepared(x, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("label", [datetime.date(2020, 1, 1), frozenset([1]), b"bytes", float("inf")])
def test_labels_that_cannot_be_kept_are_refused_before_learning(label: object) -> None:
    with pytest.raises(ContextError, match="cannot be kept"):
        prepared(y=[label, "b"] * 50)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (np.ones(3), r"shape \(3,\), expected \(100,\)"),
        (-np.ones(100), "not negative"),
        (np.zeros(100), "not all zero"),
        (np.full(100, np.inf), "finite"),
    ],
)
def test_sample_weights_are_checked(weight: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        prepared(sample_weight=weight)


def test_rows_keep_their_own_preparation_and_weights() -> None:
    rows = Rows(torch.from_numpy(X), torch.arange(100) % 2, prepare=lambda batch: batch * 2, weight=torch.ones(100))
    made = prepared(rows, None)
    assert torch.equal(made.rows.inputs(slice(0, 2)), torch.from_numpy(X[:2]) * 2)
    assert made.scaling == (0.0, 1.0)
    assert made.rows.weight is rows.weight
    with pytest.raises(ConfigError, match="pass the weights as Rows"):
        prepared(rows, None, sample_weight=np.ones(100))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300, 5])
def test_names_are_checked(name: Any) -> None:
    with pytest.raises(TaskError, match="task name"):
        prepare_task(name, X, Y, shape=(4,), outputs=3)
