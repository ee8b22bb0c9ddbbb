"""Figures beside those of a constant answer, classes of unequal size, and rows held out from every class."""

import numpy as np
import pytest
import torch

from crwn import Learner, NeuroModNet
from crwn.contexts import ContextInfo
from crwn.errors import ConfigError
from crwn.learner.judge import judge, verdict
from crwn.learner.prepare import prepare_task
from crwn.learner.tables import held_out_share
from crwn.training.task import PreparedTask

X = np.random.default_rng(0).normal(size=(1000, 2)).astype("float32")
RARE = (X[:, 0] > 2.0).astype(int)  # about 2%


def prepared(**options: object) -> PreparedTask:
    return prepare_task("rare", X, RARE, shape=(2,), outputs=4, **options)  # type: ignore[arg-type]


def test_judged_beside_the_majority_and_class_by_class() -> None:
    y = torch.tensor([0] * 98 + [1] * 2)
    never = torch.tensor([[1.0, 0.0]]).repeat(100, 1)
    found = judge(prepared(), never, y)
    assert found == {"accuracy": 98.0, "majority": 98.0, "balanced_accuracy": 50.0}
    useless = verdict(ContextInfo.from_mapping(found), 2)
    assert useless.figures == "98.0%, majority 98.0%, balanced 50.0%"
    assert useless.warning is not None
    assert "no better than always answering the commonest class" in useless.warning


@pytest.mark.parametrize(
    ("accuracy", "majority", "balanced", "warned"),
    [(60.0, 50.0, 60.0, False), (50.0, 50.0, 50.0, True), (93.0, 98.0, 90.0, False), (98.2, 98.1, 55.0, False)],
)
def test_a_warning_only_where_a_constant_answer_is_as_good(
    accuracy: float, majority: float, balanced: float, warned: bool
) -> None:
    info = ContextInfo(accuracy=accuracy, majority=majority, balanced_accuracy=balanced)
    assert (verdict(info, 2).warning is not None) is warned


def test_equal_classes_show_no_balanced_accuracy_and_old_contexts_no_majority() -> None:
    info = ContextInfo(accuracy=90.0, majority=52.0, balanced_accuracy=90.0)
    assert verdict(info, 2).figures == "90.0%, majority 52.0%"
    assert verdict(ContextInfo(accuracy=90.0), 2).figures == "90.0%"
    assert verdict(ContextInfo(r2=-0.1, rmse=3.0), 1).warning == "no better than always answering the mean"


def test_rare_classes_are_held_out_in_proportion() -> None:
    task = prepared(validation=0.2)
    assert task.validation is not None
    counts = [int(rows.labels(slice(None)).sum()) for rows in (task.rows, task.validation)]
    assert len(task.validation) == 200
    assert counts[1] == pytest.approx(0.2 * sum(counts), abs=1)


def test_the_only_row_of_a_class_is_learned() -> None:
    y = np.array(["a"] * 50 + ["b"] * 49 + ["c"])
    task = prepare_task("t", X[:100], y, shape=(2,), outputs=4, validation=0.3)
    assert task.validation is not None
    assert 2 not in task.validation.labels(slice(None)).tolist()


def test_balanced_weights_let_classes_count_the_same() -> None:
    weight = prepared(class_weight="balanced").rows.weight
    assert weight is not None
    assert float(weight[RARE == 1].sum()) == pytest.approx(float(weight[RARE == 0].sum()), rel=1e-4)
    with pytest.raises(ConfigError, match='unknown class_weight "heavy"'):
        prepared(class_weight="heavy")
    with pytest.raises(ConfigError, match="class_weight is for classification"):
        prepared(class_weight="balanced", kind="regression")


def test_refit_learns_from_all_rows_with_what_was_measured_before() -> None:
    learner = Learner(NeuroModNet(2, (64,), 2, seed=0))
    context = learner.learn("side", X, X[:, 0] > 0.5, batches=60, validation=0.2, refit=True, progress=False)
    info = context.info
    assert (info.rows, info.held_out) == (1000, 200)
    assert info.batches == 60
    assert info.accuracy is not None
    assert info.majority is not None
    assert info.accuracy > info.majority
    alone = learner.learn("half", X, X[:, 0] > 0.5, batches=60, validation=0.2, progress=False)
    assert alone.info.rows == 800


def test_the_share_held_out_depends_on_the_rows() -> None:
    assert [held_out_share(rows) for rows in (10, 400, 10**6)] == [None, 0.2, None]
    assert held_out_share(400, table=False) == 0.1
