"""The shared head: its weights are the ridge solution, and no order of tasks changes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crwn.data.dataset import Rows
from crwn.errors import DataError, TaskError
from crwn.training.exact.shared_head import LEAST_PRIOR, SharedHead, task_scores


def task(number: int, count: int = 120, width: int = 10) -> Rows:
    """Rows of three classes around means that only this task has."""
    random = np.random.default_rng(number)
    y = random.integers(0, 3, size=count)
    x = 2 * random.normal(size=(3, width))[y] + random.normal(size=(count, width))
    return Rows(torch.from_numpy(x).float(), torch.from_numpy(y))


def head_of(order: list[int]) -> SharedHead:
    head = SharedHead(10)
    for number in order:
        head.add(f"t{number}", task(number), ["a", "b", "c"])
    return head


def test_weights_are_those_of_the_normal_equations() -> None:
    head = head_of([0, 1])
    h = torch.cat([task(0).x, task(1).x]).double().numpy()
    y = np.eye(6)[torch.cat([task(0).y, task(1).y + 3]).numpy()]  # type: ignore[operator, list-item]
    gram = h.T @ h
    ridge = head.solution.ridge * gram.diagonal().mean()
    expected = np.linalg.solve(gram + ridge * np.eye(10), h.T @ y)
    assert np.allclose(head.solution.gain, expected, rtol=1e-6, atol=1e-9)


def test_the_order_of_tasks_makes_no_difference() -> None:
    first, second = head_of([0, 1, 2]), head_of([2, 0, 1])
    at = [second.members.index(member) for member in first.members]
    x = task(1).x
    assert torch.allclose(first.logits(x), second.logits(x)[:, at], rtol=1e-4, atol=1e-4)
    assert first.tasks == ["t0", "t1", "t2"]
    by_task = task_scores(first.tasks, first.members, first.logits(x))
    assert torch.allclose(by_task.exp().sum(dim=1), torch.ones(len(x)), atol=1e-5)
    assert float((by_task.argmax(dim=1) == 1).double().mean()) > 0.8


@pytest.mark.parametrize(("width", "count"), [(40, 300), (400, 60)])
def test_probabilities_are_not_too_sure(width: int, count: int) -> None:
    """Also those of few rows with many features, whose GCV is least for no ridge at all."""
    projection = torch.from_numpy(np.random.default_rng(9).normal(size=(10, width))).float()
    head = SharedHead(width, lambda x: torch.relu(x @ projection), LEAST_PRIOR * width)
    rows = [task(number, 2 * count) for number in range(3)]
    for number, one in enumerate(rows):
        head.add(f"t{number}", one.select(torch.arange(count)), ["a", "b", "c"])
    new = [one.select(torch.arange(count, 2 * count)) for one in rows]
    logits = torch.cat([head.logits(one.inputs(slice(None))) for one in new])
    share, best = logits.softmax(dim=1).max(dim=1)
    right = best == torch.cat([one.labels(slice(None)) + 3 * number for number, one in enumerate(new)])
    assert head.solution.ridge >= LEAST_PRIOR * width / (3 * count)
    assert 0.8 < float(right.double().mean()) < 0.99
    assert -0.2 < float(share.mean()) - float(right.double().mean()) < 0.04


def test_wide_features_give_the_same_bits_in_any_order() -> None:
    def sums(order: list[int]) -> SharedHead:
        head = SharedHead(2049, lambda x: torch.relu(x @ torch.ones(10, 2049)))
        for number in order:
            head.add(f"t{number}", task(number, 40), ["a", "b", "c"])
        return head

    assert np.array_equal(sums([0, 1]).sums.gram, sums([1, 0]).sums.gram)


def test_tasks_are_forgotten_and_an_empty_head_says_so() -> None:
    head = head_of([0, 1])
    head.forget("t0")
    assert head.tasks == ["t1"]
    with pytest.raises(TaskError, match='no task "t0"'):
        head.forget("t0")
    with pytest.raises(DataError, match="no rows yet"):
        _ = SharedHead(10).solution
