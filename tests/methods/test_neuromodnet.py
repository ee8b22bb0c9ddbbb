"""NeuroModNet as a method: pretrained mode against its formula, counts, structure, and options that do not apply."""

from __future__ import annotations

import numpy as np
import pytest

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario
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
    "settings", [{"recipe": "best"}, {"depth": "3"}, {"activation": "gelu"}, {"weights": "hadamard"}, {"norm": "layer"}]
)
def test_options_without_effect_on_images_are_errors(settings: dict[str, str], stripes: Scenario) -> None:
    with pytest.raises(ConfigError, match="are for flat rows"):
        make_method("neuromodnet", stripes, settings=settings)
