"""Newton steps: they lower cross-entropy, and many of them reach its minimum."""

import numpy as np
import torch
import torch.nn.functional as F

import crwn
from crwn.data.dataset import Rows
from crwn.training.evaluation import predict_logits
from crwn.training.exact import ExactSettings, learn_exact, newton, output_layer
from crwn.training.task import PreparedTask
from digit_rows import Data


def task(digits: Data, *, classes: int = 10) -> PreparedTask:
    x, y = torch.from_numpy(digits[0].copy()) / 8 - 1, torch.from_numpy(digits[1].copy())
    few = y < classes
    return PreparedTask("t", Rows(x[few][:800], y[few][:800]), tuple(range(classes)))


def cross_entropy(model: crwn.FlyNet, given: PreparedTask, steps: int) -> float:
    found = learn_exact(model, given, ExactSettings(ridge=1e-3, newton=steps))
    logits = predict_logits(model, found.learned.tensors, given.rows, classes=given.classes)
    return float(F.cross_entropy(logits, given.rows.labels(slice(None))))


def test_every_few_steps_lower_cross_entropy(digits: Data) -> None:
    model = crwn.FlyNet(64, 200, 10, seed=0)
    losses = [cross_entropy(model, task(digits), steps) for steps in (0, 2, 5, 20)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_many_steps_reach_a_point_without_gradient(digits: Data) -> None:
    model, given = crwn.FlyNet(64, 80, 10, seed=0), task(digits)
    result = learn_exact(model, given, ExactSettings(ridge=1e-2))
    layer = output_layer(model)
    features = newton._Features.of(layer, result.learned.tensors, given.rows)
    loss = newton._CrossEntropy(features, given.rows, 10, 5.0)
    start = result.solution.gain * result.solution.sharpness
    numeric = [(loss(start + 1e-3 * e)[0] - loss(start - 1e-3 * e)[0]) / 2e-3 for e in np.eye(80)[:3]]
    np.testing.assert_allclose(loss(start)[1][:3], numeric, rtol=2e-2, atol=0.2)
    found = newton.minimize(loss, start, lambda x: x / 5.0, 100)
    assert np.abs(loss(found)[1]).max() < 1e-2 * np.abs(loss(start)[1]).max()


def test_features_that_are_not_kept_give_the_same_context(digits: Data, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    model, given = crwn.FlyNet(64, 120, 10, seed=0), task(digits)
    settings = ExactSettings(ridge=1e-3, newton=3)
    kept = learn_exact(model, given, settings).learned.tensors["decoder.v"]
    monkeypatch.setattr(newton, "KEPT_BYTES", 0)
    again = learn_exact(model, given, settings).learned.tensors["decoder.v"]
    torch.testing.assert_close(kept, again, rtol=1e-3, atol=1e-5)


def test_tasks_of_fewer_classes_and_weights(digits: Data) -> None:
    model, given = crwn.FlyNet(64, 120, 10, seed=0), task(digits, classes=3)
    y = given.rows.labels(slice(None))
    heavy = PreparedTask("t", Rows(given.rows.x, y, weight=torch.where(y == 1, 5.0, 1.0)), given.labels)
    found = learn_exact(model, heavy, ExactSettings(newton=3)).learned.tensors
    logits = predict_logits(model, found, given.rows, classes=3)
    assert float((logits.argmax(dim=1) == y).float().mean()) > 0.95
