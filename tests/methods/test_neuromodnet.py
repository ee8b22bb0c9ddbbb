"""NeuroModNet as a method: pretrained mode against its formula, counts, structure, and options that do not apply."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.methods.method import Method
from crwn.models import NeuroModNet, WhitenedResNet
from crwn.scenarios import Scenario
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import accuracy
from crwn.training.loop import Step
from reference_network import CountsOf, RMSprop, assert_predicts, batches, buffers, gradients, learn, make, model_of


@pytest.mark.parametrize("rate", [None, 1e-3])
def test_pretrained(rate: float | None, small: Scenario) -> None:
    settings = {} if rate is None else {"first_rate": str(rate)}
    method, task = make("neuromodnet", small, pretrained="true", start="ones", **settings), small[0]
    weights = buffers(method, "frozen.weight")
    v = [np.ones(w.shape[1]) for w in weights]
    alpha = [np.ones(()) for _ in weights]
    step = RMSprop(rate or 0.01)
    for x, y in batches(task, 2):
        found = gradients(x, y, [a * w * b for a, w, b in zip(alpha, weights, v, strict=True)])
        for i, g in enumerate(found):
            by_v, by_alpha = (g * alpha[i] * weights[i]).sum(0), np.asarray((g * weights[i] * v[i]).sum())
            weights[i] = step(10 + i, weights[i], g * alpha[i] * v[i])
            v[i], alpha[i] = step(20 + i, v[i], by_v), step(30 + i, alpha[i], by_alpha)
    learn(method, task, 2)
    assert_predicts(method, task, [a * w * b for a, w, b in zip(alpha, weights, v, strict=True)])
    frozen = buffers(method, "frozen.weight")
    learn(method, small[1], 2)
    for before, after in zip(frozen, buffers(method, "frozen.weight"), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    ("size", "learned"),
    [("256", 1299), ("512", 1811), ("1024", 2835), ("2048", 4883), ("4096", 8979), ("16384", 33555)],
)
def test_counts(size: str, learned: int, flat_counts: CountsOf) -> None:
    found = flat_counts("neuromodnet", size, weights="hadamard")
    assert (found.params_per_task, found.params_per_task_amortised) == (learned, learned)
    assert found.bytes_per_task == 4 * learned


def test_counts_by_modulation_and_mode(flat_counts: CountsOf) -> None:
    assert flat_counts("neuromodnet").params_per_task == 2835  # 1024 is the default
    assert flat_counts("neuromodnet", "256", modulation="local").params_per_task == 1296
    assert flat_counts("neuromodnet", "256", modulation="global").params_per_task == 3
    assert flat_counts("neuromodnet", "256", depth="1").params_per_task == 784 + 256 + 2
    pretrained = flat_counts("neuromodnet", "4096", pretrained="true")
    assert pretrained.params_per_task == 8979
    assert pretrained.params_per_task_amortised == pytest.approx(20_029_440 / 36 + 8979)
    assert pretrained.bytes_per_task == 4 * 20_029_440 // 36 + 4 * 8979


def test_counts_on_images(image_counts: CountsOf) -> None:
    found = image_counts("neuromodnet")
    assert (found.params_per_task, found.params_per_task_amortised) == (4968, 4968)
    assert found.bytes_per_task == 4 * (4968 + 1500)
    assert found.note.count("statistics") == 1


def test_the_best_recipe_has_its_own_structure_unless_it_is_set(mnist_shaped: Scenario) -> None:
    def structure(**settings: str) -> tuple[str, str]:
        model = model_of(make_method("neuromodnet", mnist_shaped, size="256", settings=settings)[0])
        assert isinstance(model, NeuroModNet)
        return model.config["weights"], model.norm

    assert structure() == ("gaussian", "none")
    assert structure(recipe="best") == ("patches", "layer")
    assert structure(recipe="best", norm="none") == ("patches", "none")
    method, _ = make_method("neuromodnet", mnist_shaped, size="256", settings={"recipe": "best", "norm": "none"})
    recipe = method.recipe()
    assert (recipe.optimizer, recipe.rate, recipe.schedule) == ("rmsprop", 0.02, "cosine")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"first_rate": "0.1"}, "is for pretrained=true"),
        ({"statistics_momentum": "0.2"}, "is for images"),
        ({"pretrained": "true", "weights": "hadamard"}, "pretrained=true trains dense weights, got weights=hadamard"),
    ],
)
def test_options_without_effect_on_flat_rows_are_errors(
    settings: dict[str, str], message: str, mnist_shaped: Scenario
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method("neuromodnet", mnist_shaped, settings=settings)


@pytest.mark.parametrize(
    "settings", [{"depth": "3"}, {"activation": "gelu"}, {"weights": "hadamard"}, {"norm": "layer"}]
)
def test_options_without_effect_on_images_are_errors(settings: dict[str, str], stripes: Scenario) -> None:
    with pytest.raises(ConfigError, match="are for flat rows"):
        make_method("neuromodnet", stripes, settings=settings)


def best(scenario: Scenario, size: str | None = None, **settings: str) -> Method:
    return make_method("neuromodnet", scenario, size=size, settings={"recipe": "best"} | settings)[0]


def test_the_best_recipe_on_images_has_a_network_of_its_own(cifar_shaped: Scenario, image_counts: CountsOf) -> None:
    model = model_of(best(cifar_shaped))
    assert isinstance(model, WhitenedResNet)
    assert (model.config["width"], model.config["start"], model.mirror) == (1, "ones", True)
    assert model_of(best(cifar_shaped, "2d", start="uniform")).config["width"] == 2  # type: ignore[index]
    assert model_of(best(cifar_shaped, start="uniform")).config["start"] == "uniform"  # type: ignore[index]
    assert image_counts("neuromodnet", recipe="best").params_per_task <= 4968
    with pytest.raises(ConfigError, match="recipe=best on images has none to train"):
        best(cifar_shaped, pretrained="true")


def test_the_best_recipe_on_images_takes_25_epochs_unless_others_are_given(cifar_shaped: Scenario) -> None:
    method = best(cifar_shaped)
    assert (method.recipe().epochs, method.recipe().batches) == (25, None)
    assert method.recipe(epochs=None, batches=None).epochs == 25
    assert method.recipe(epochs=3).epochs == 3
    assert (method.recipe(batches=7).epochs, method.recipe(batches=7).batches) == (None, 7)
    assert method.recipe(rate=0.5, batch_size=8).model_dump().items() >= {"rate": 0.5, "batch_size": 8}.items()
    assert make_method("neuromodnet", cifar_shaped)[0].recipe().epochs == 250


def test_the_best_recipe_on_images_learns_and_resumes_with_the_same_numbers(stripes: Scenario, tmp_path: Path) -> None:
    def stop(step: Step) -> None:
        if step.step == 5:
            raise KeyboardInterrupt

    task = stripes[0]
    whole, killed, resumed = (best(stripes) for _ in range(3))
    recipe = whole.recipe(epochs=6, batch_size=16)
    whole.learn([task], recipe)
    assert accuracy(whole.logits(task, task.test), task.test.labels(slice(None))) > 0.9
    with pytest.raises(KeyboardInterrupt):
        killed.learn([task], recipe, callbacks=[stop], checkpoint=Checkpoint(tmp_path / "c", "a", seconds=0))
    assert (tmp_path / "c").exists()
    steps: list[int] = []
    again = Checkpoint(tmp_path / "c", "a", seconds=0)
    resumed.learn([task], recipe, callbacks=[lambda step: steps.append(step.step)], checkpoint=again)
    assert steps[0] == 5
    for name, value in whole.task_state(task).items():
        assert torch.equal(resumed.task_state(task)[name], value), name
