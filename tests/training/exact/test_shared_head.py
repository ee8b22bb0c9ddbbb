"""The shared head: its weights are the ridge solution, and no order of tasks changes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crwn.data.dataset import Rows
from crwn.errors import DataError, TaskError
from crwn.training.exact.shared_head import SharedHead


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
    names, by_task = first.task_logits(first.logits(x))
    assert names == ["t0", "t1", "t2"]
    assert float((by_task.argmax(dim=1) == 1).double().mean()) > 0.8


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
