"""FlyNet as a method: its counts and its errors."""

from __future__ import annotations

import pytest
import torch

from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.methods import make_method
from crwn.models import ImageFlyNet
from crwn.scenarios import Scenario
from reference_network import CountsOf


@pytest.mark.parametrize(("size", "learned"), [("10d", 7841), ("20d", 15681), ("30d", 23521), ("40d", 31361)])
def test_counts(size: str, learned: int, flat_counts: CountsOf) -> None:
    found = flat_counts("flynet", size)
    assert (found.params_per_task, found.bytes_per_task) == (learned, 4 * learned)
    assert found.note


@pytest.mark.parametrize(("size", "learned"), [("5k", 4897), ("10k", 9793)])
def test_counts_on_images(size: str, learned: int, cifar_shaped: Scenario) -> None:
    found = make_method("flynet", cifar_shaped, size=size)[0].counts(20)
    assert (found.params_per_task, found.bytes_per_task) == (learned, 4 * learned)


def test_images_are_learned_on_their_features_and_no_task_changes_another(stripes: Scenario) -> None:
    method, _ = make_method("flynet", stripes)
    recipe = method.recipe()
    assert (recipe.epochs, recipe.optimizer, recipe.compile) == (40, "adam", False)
    method.learn(stripes[:1], recipe)
    first = method.logits(stripes[0], stripes[0].test)
    method.learn(stripes[1:], recipe)
    for task in stripes:
        right = method.logits(task, task.test).argmax(dim=1) == task.test.labels(slice(None))
        assert float(right.float().mean()) > 0.9
    assert torch.equal(method.logits(stripes[0], stripes[0].test), first)  # identical bits


def test_the_contexts_are_those_of_a_learner_of_the_same_network(stripes: Scenario) -> None:
    method, _ = make_method("flynet", stripes)
    method.learn(stripes[:1], method.recipe(epochs=2))
    learner = Learner(method.model)
    context = method.task_context(stripes[0], accuracy=50.0)
    assert context is not None
    learner.add(context)
    logits = learner.logits(stripes[0].test, "task-0")[0]
    assert torch.allclose(logits, method.logits(stripes[0], stripes[0].test), atol=1e-4)


def test_best_on_images_has_mirrored_images_colours_and_gains(stripes: Scenario) -> None:
    method, _ = make_method("flynet", stripes, settings={"recipe": "best"})
    assert isinstance(method.model, ImageFlyNet)
    assert method.model.symmetric
    assert method.model.encoder.colours is not None
    assert method.recipe().weight_decay < make_method("flynet", stripes)[0].recipe().weight_decay


@pytest.mark.parametrize(
    ("size", "settings", "message"),
    [
        ("1d", {}, 'flynet has no size "1d" for images: choose one of 5k, 10k, 20k, 30k'),
        ("5k", {"gamma": "0.5"}, "gamma: for flat rows only"),
    ],
)
def test_what_images_do_not_have(stripes: Scenario, size: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method("flynet", stripes, size=size, settings=settings)


def test_flat_rows_do_not_have_the_sizes_of_images(mnist_shaped: Scenario) -> None:
    with pytest.raises(ConfigError, match='flynet has no size "5k"'):
        make_method("flynet", mnist_shaped, size="5k")


@pytest.mark.parametrize("size", ["10k", "30k"])
def test_best_of_the_larger_sizes_is_learned_in_closed_form(size: str, stripes: Scenario) -> None:
    method, _ = make_method("flynet", stripes, size=size, settings={"recipe": "best"})
    assert method.closed_form  # type: ignore[attr-defined]
    assert "closed form" in method.counts(2).note
    method.learn(stripes[:1], method.recipe())
    first = method.logits(stripes[0], stripes[0].test)
    method.learn(stripes[1:], method.recipe())
    for task in stripes:
        right = method.logits(task, task.test).argmax(dim=1) == task.test.labels(slice(None))
        assert float(right.float().mean()) > 0.9
    assert torch.equal(method.logits(stripes[0], stripes[0].test), first)  # identical bits
    gradient, _ = make_method("flynet", stripes, size=size, settings={"recipe": "best", "training": "gradient"})
    assert not gradient.closed_form  # type: ignore[attr-defined]
