"""Contexts of decoders that are any linear classifier: ridge regression, by rows and by features; what is refused."""

import numpy as np
import pytest
import torch

from crwn import ImageFlyNet
from crwn.data.dataset import Rows
from crwn.errors import DataError, ModelError
from crwn.training.exact import linear
from crwn.training.exact.linear import is_linear, learn_linear
from crwn.training.task import PreparedTask

MODEL = ImageFlyNet((1, 12, 12), 3, seed=0, filters=16, gains=2, symmetric=True)


def a_task(count: int = 90) -> PreparedTask:
    random = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 3
    x = torch.randn(count, 1, 12, 12, generator=random)
    x[y == 1, :, :, ::3] += 1.5
    x[y == 2, :, ::3] += 1.5
    return PreparedTask("stripes", Rows(x, y), range(3))


def differences(logits: torch.Tensor) -> torch.Tensor:
    return logits - logits.mean(dim=1, keepdim=True)


def test_answers_are_those_of_ridge_regression() -> None:
    task = a_task()
    learned = learn_linear(MODEL, task)
    x, y = task.rows.inputs(slice(None)), task.rows.labels(slice(None)).numpy()
    h = MODEL.encode(x).half().double().numpy()  # features of training rows are kept in float16
    wanted = np.eye(3)[y] - 1 / 3
    size = (h**2).sum(axis=1).mean()
    answers = []
    for ridge in linear.RIDGES:
        weights = np.linalg.solve(h.T @ h + ridge * size * np.eye(h.shape[1]), h.T @ wanted)
        answers.append(float(learned.tensors["decoder.alpha"]) * h @ weights)
    logits = differences(MODEL.head.forward_with(learned.tensors, torch.from_numpy(h).float())).detach().numpy()
    errors = [np.abs(logits - expected).max() for expected in answers]
    assert min(errors) < 2e-2
    assert sorted(errors)[1] > 0.1  # it is one of the ridges, not any of them
    assert float((logits.argmax(axis=1) == y).mean()) > 0.9


def test_the_error_of_rows_left_out_is_that_of_learning_without_them() -> None:
    task = a_task(30)
    h, y = MODEL.encode(task.rows.inputs(slice(None))), task.rows.labels(slice(None))
    wanted = torch.nn.functional.one_hot(y, 3).double() - 1 / 3
    ridge, _, left_out, _ = linear._by_products(h, wanted)
    products = (h @ h.T).double()
    size = float(products.diagonal().mean())
    kept = torch.arange(1, 30)
    system = products[1:, 1:] + ridge * size * torch.eye(29, dtype=torch.float64)
    expected = products[0, 1:] @ torch.linalg.solve(system, wanted[kept])
    assert torch.allclose(left_out[0], expected, atol=1e-6)


def test_many_rows_are_summed_over_features(monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_task(60)
    monkeypatch.setattr(linear, "RIDGES", (0.1,))
    few = learn_linear(MODEL, task)
    monkeypatch.setattr(linear, "MOST_ROWS", 30)
    many = learn_linear(MODEL, task)
    h = MODEL.encode(task.rows.inputs(slice(None)))
    ratio = float(few.tensors["decoder.alpha"] / many.tensors["decoder.alpha"])  # of fewer rows
    one, other = (differences(MODEL.head.forward_with(found.tensors, h)) for found in (few, many))
    assert torch.allclose(one, ratio * other, atol=2e-2)


def test_what_is_no_linear_classifier_is_refused() -> None:
    assert is_linear(MODEL, 3)
    assert not is_linear(ImageFlyNet((1, 12, 12), 3, seed=0, filters=16), 3)
    assert not is_linear(ImageFlyNet((1, 12, 12), 3, seed=0, filters=16, gains=2, modulation="local"), 3)
    task = a_task()
    with pytest.raises(ModelError, match="has 3 classes: the decoder needs one gain less"):
        learn_linear(ImageFlyNet((1, 12, 12), 3, seed=0, filters=16), task)
    with pytest.raises(DataError, match="has 1 rows"):
        learn_linear(MODEL, PreparedTask("one", task.rows.select(torch.tensor([0])), range(3)))
    broken = task.rows.inputs(slice(None)).clone()
    broken[3] = torch.nan
    with pytest.raises(DataError, match="are not finite"):
        learn_linear(MODEL, PreparedTask("broken", Rows(broken, task.rows.y), range(3)))
