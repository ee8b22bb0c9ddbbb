"""The recipes of the paper, and when networks are compiled."""

from __future__ import annotations

import pytest

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.methods.published import TUNED
from crwn.scenarios import Scenario


@pytest.mark.parametrize(
    ("name", "rate", "image_rate"),
    [
        ("neuromodnet", 0.01, 0.1),
        ("flynet", 0.01, None),
        ("supsup", 1e-4, 1e-3),
        ("batche", 0.01, 0.01),
        ("psp", 1e-4, 1e-3),
        ("stl", 1e-3, 1e-3),
        ("mtl", 1e-3, 1e-3),
        ("finetune", 1e-3, 1e-3),
        ("ewc", 1e-3, 1e-3),
        ("replay", 1e-3, 1e-3),
    ],
)
def test_recipes(name: str, rate: float, image_rate: float | None, mnist_shaped: Scenario, stripes: Scenario) -> None:
    method, _ = make_method(name, mnist_shaped)
    recipe = method.recipe()
    assert (recipe.optimizer, recipe.rate, recipe.schedule) == ("rmsprop", rate, "constant")
    assert (recipe.batch_size, recipe.batches, recipe.epochs) == (128, 1000, None)
    if image_rate is not None:
        recipe = make_method(name, stripes)[0].recipe()
        assert (recipe.optimizer, recipe.rate, recipe.schedule, recipe.epochs) == ("adam", image_rate, "cosine", 250)


def test_overrides(mnist_shaped: Scenario) -> None:
    method, _ = make_method("stl", mnist_shaped)
    assert method.recipe(epochs=3, batches=None).batches is None
    assert method.recipe(rate=0.5).rate == 0.5


def test_only_long_tasks_of_images_are_compiled(stripes: Scenario, mnist_shaped: Scenario) -> None:
    method, _ = make_method("neuromodnet", stripes)  # an epoch is one batch here
    assert [method.recipe(epochs=epochs).compile for epochs in (499, 500)] == [False, True]
    assert not method.recipe(epochs=500, compile=False).compile
    assert method.recipe(batches=3, compile=True).compile
    flat, _ = make_method("neuromodnet", mnist_shaped)
    assert not flat.recipe(batches=1000).compile


@pytest.mark.parametrize("name", TUNED)
def test_the_tuned_recipe_can_be_overridden(name: str, mnist_shaped: Scenario, stripes: Scenario) -> None:
    method, _ = make_method(name, mnist_shaped, seed=0, settings={"recipe": "best"})
    found = method.recipe()
    wanted = {key: value for key, value in TUNED[name].items() if key in type(found).model_fields}
    assert found.model_dump().items() >= wanted.items()
    assert method.recipe(rate=0.5).model_dump().items() >= (wanted | {"rate": 0.5}).items()
    assert make_method(name, mnist_shaped, seed=0)[0].recipe().optimizer == "rmsprop"
    if name != "flynet":
        with pytest.raises(ConfigError, match="recipe=best is for flat rows"):
            make_method(name, stripes, seed=0, settings={"recipe": "best"})[0].recipe()
