"""From data to a lesson: classes, held-out rows, recipes and groups, all checked before anything is learned."""

import datetime

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from crwn import FlyNet, NeuroModNet, Recipe, Rows
from crwn.errors import ConfigError, ContextError, DataError, TaskError
from crwn.lessons import grouped, make_lesson, plan

X = np.random.default_rng(0).normal(3, 2, size=(100, 4)).astype(np.float32)
Y = np.array(["no", "yes"] * 50)


def lesson(x: object = X, y: object = Y, **settings: object):
    return make_lesson("t", x, y, shape=(4,), outputs=3, **settings)


def test_classes_scaling_and_rows() -> None:
    made = lesson()
    assert made.classes == ("no", "yes")
    assert made.task.classes == 2
    assert made.task.rows.labels(slice(None)).tolist() == [0, 1] * 50
    inputs = made.task.rows.inputs(slice(None))
    assert float(inputs.mean()) == pytest.approx(0, abs=1e-5)
    assert float(inputs.std()) == pytest.approx(1, abs=1e-2)


def test_a_share_is_held_out_by_seed_and_name() -> None:
    made, again, other = lesson(validation=0.2), lesson(validation=0.2), lesson(validation=0.2, seed=1)
    assert made.task.validation is not None
    assert again.task.validation is not None
    assert other.task.validation is not None
    assert (len(made.task.rows), len(made.task.validation)) == (80, 20)
    assert torch.equal(made.task.validation.index, again.task.validation.index)
    assert not torch.equal(made.task.validation.index, other.task.validation.index)
    everything = torch.cat([made.task.rows.index, made.task.validation.index])
    assert sorted(everything.tolist()) == list(range(100))


@pytest.mark.parametrize(
    "validation",
    [
        (X[:10], Y[:10]),
        [X[:10], Y[:10].tolist()],
        (torch.from_numpy(X[:10]), Y[:10]),
        DataLoader(list(zip(torch.from_numpy(X[:10]), Y[:10].tolist(), strict=True)), batch_size=4),
    ],
    ids=["pair", "list", "tensor", "loader"],
)
def test_validation_data_of_any_kind_get_the_tasks_scaling(validation: object) -> None:
    made = lesson(validation=validation)
    assert made.task.validation is not None
    assert torch.allclose(made.task.validation.inputs(slice(None)), made.task.rows.inputs(slice(0, 10)))
    assert made.task.validation.labels(slice(None)).tolist() == [0, 1] * 5
    assert len(made.task.rows) == 100


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
        lesson(validation=validation)
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
        lesson(x, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("label", [datetime.date(2020, 1, 1), frozenset([1]), b"bytes", float("inf")])
def test_labels_that_cannot_be_kept_are_refused_before_learning(label: object) -> None:
    with pytest.raises(ContextError, match="cannot be kept"):
        lesson(y=[label, "b"] * 50)


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
        lesson(sample_weight=weight)


def test_rows_keep_their_own_preparation_and_weights() -> None:
    rows = Rows(torch.from_numpy(X), torch.arange(100) % 2, prepare=lambda batch: batch * 2, weight=torch.ones(100))
    made = lesson(rows, None)
    assert torch.equal(made.task.rows.inputs(slice(0, 2)), torch.from_numpy(X[:2]) * 2)
    assert made.scaling == (0.0, 1.0)
    assert made.task.rows.weight is rows.weight
    with pytest.raises(ConfigError, match="weights of their own"):
        lesson(rows, None, sample_weight=np.ones(100))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300, 5])
def test_names_are_checked(name: object) -> None:
    with pytest.raises(TaskError, match="task name"):
        make_lesson(name, X, Y, shape=(4,), outputs=3)


def test_named_recipes_and_lengths() -> None:
    model = NeuroModNet(4, (8,), 2, seed=0)
    assert plan(model, "paper", batches=None, epochs=None).schedule == "constant"
    best = plan(model, None, batches=7, epochs=None)
    assert (best.rate, best.schedule, best.batches) == (0.02, "cosine", 7)
    own = plan(model, Recipe(optimizer="adam", batches=5), batches=None, epochs=3)
    assert (own.optimizer, own.batches, own.epochs) == ("adam", None, 3)
    for wrong in ({"recipe": "fast", "batches": None}, {"recipe": None, "batches": 0}, {"recipe": None, "batches": 3}):
        with pytest.raises(ConfigError):
            plan(model, wrong["recipe"], batches=wrong["batches"], epochs=2 if wrong["batches"] == 3 else None)


def test_only_alike_lessons_are_stacked() -> None:
    model = FlyNet(4, 16, 3, seed=0, inputs_per_node=2)
    made = [lesson(), lesson(X[:50], Y[:50]), lesson(), lesson(X[:62], Y[:62], validation=(X[:10], Y[:10]))]
    made.append(lesson(X[:62], Y[:62]))
    assert [len(group) for group in grouped(model, made, 128)] == [2, 1, 1, 1]
    sizes = [len(group) for group in grouped(model, [lesson()] * 20, 128)]
    assert (sum(sizes), len(sizes)) == (20, 2)
    assert max(sizes) <= 16
