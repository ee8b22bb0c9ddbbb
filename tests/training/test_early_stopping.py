"""Early stopping: the best context is kept, and a stack stops each task as it would stop alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from crwn import NeuroModNet, Recipe
from crwn.data import load
from crwn.prediction import predict_logits
from crwn.rows import Rows, TaskRows, named_generator
from crwn.training import Step, train


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    found = load("digits")
    return (found.x_train.flatten(1).float() - 78) / 96, found.y_train


@pytest.fixture
def model() -> NeuroModNet:
    return NeuroModNet(64, (48, 32), 10, seed=0)


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def noisy(digits, name: str, rows: int = 64, *, seed: int = 0) -> TaskRows:
    """A task that can only be learned by heart: its validation labels are random."""
    x, y = digits
    wrong = torch.from_numpy(named_generator("noise", seed).integers(0, 10, 200))
    return TaskRows(name, Rows(x[:rows], y[:rows]), 10, Rows(x[200:400], wrong))


def test_keeps_the_best_context_and_stops(digits, model) -> None:
    task = noisy(digits, "a")
    assert task.validation is not None
    recipe = Recipe(batches=200, patience=2, check_every=5)
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []

    def watch(step: Step) -> None:
        if step.step % 5 == 0:
            tensors = {name: value[0].detach().clone() for name, value in step.tensors.items()}
            logits = predict_logits(model, tensors, task.validation)
            seen.append((float(nn.functional.cross_entropy(logits, task.validation.labels(slice(None)))), tensors))

    (found,) = train(model, [task], recipe, seed=0, callbacks=[watch])
    best, tensors = min(seen, key=lambda pair: pair[0])
    assert found.steps < 200
    assert same(found.tensors, tensors)
    assert [loss for loss, _ in seen].index(best) == len(seen) - 3


def test_a_task_in_a_stack_stops_as_it_would_alone(digits, model) -> None:
    x, y = digits
    good = TaskRows("good", Rows(x[:64], y[:64]), 10, Rows(x[64:264], y[64:264]))
    bad = noisy(digits, "bad")
    recipe = Recipe(batches=60, patience=1, check_every=4, rate=0.02)
    alone = [train(model, [task], recipe, seed=0)[0] for task in (good, bad)]
    together = train(model, [good, bad], recipe, seed=0)
    assert alone[1].steps < alone[0].steps
    for one, two in zip(together, alone, strict=True):
        assert torch.allclose(one.tensors["layers.0.v"], two.tensors["layers.0.v"], atol=1e-3)


def test_the_last_state_is_checked_too(digits, model) -> None:
    x, y = digits
    task = TaskRows("a", Rows(x[:256], y[:256]), 10, Rows(x[256:400], y[256:400]))
    recipe = Recipe(batches=25, check_every=20, optimizer="sgd", rate=0.05)
    watched = train(model, [task], recipe, seed=0)[0]
    plain = train(model, [TaskRows("a", task.rows, 10)], recipe, seed=0)[0]
    assert same(watched.tensors, plain.tensors)


def test_few_rows_are_not_stopped_after_a_handful_of_batches(digits, model) -> None:
    x, y = digits
    task = TaskRows("a", Rows(x[:50], y[:50]), 10, Rows(x[50:62], y[50:62]))
    assert train(model, [task], Recipe(batches=200), seed=0)[0].steps >= 60
