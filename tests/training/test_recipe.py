"""Recipes: lengths, schedules, and one clear line for a wrong setting."""

import json

import pytest

from crwn.errors import ConfigError
from crwn.training.recipe import Recipe, make_recipe


def test_the_defaults_are_the_papers() -> None:
    recipe = Recipe()
    assert (recipe.optimizer, recipe.rate, recipe.schedule, recipe.batch_size) == ("rmsprop", 0.01, "constant", 128)
    assert recipe.steps(60_000) == 1000


def test_epochs_count_the_last_partial_batch() -> None:
    assert Recipe(epochs=3, batch_size=100).steps(101) == 6
    assert Recipe(batches=7).steps(1) == 7


def test_constant_and_cosine_rates() -> None:
    assert {Recipe(rate=0.3).rate_at(step, 10) for step in range(10)} == {0.3}
    cosine = [Recipe(rate=0.2, schedule="cosine").rate_at(step, 100) for step in range(100)]
    assert cosine[0] == 0.2
    assert cosine[50] == pytest.approx(0.1)
    assert cosine == sorted(cosine, reverse=True)
    assert 0 < cosine[-1] < 1e-4


def test_onecycle_warms_up_and_comes_down() -> None:
    rates = [Recipe(rate=1.0, schedule="onecycle").rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.04)
    assert rates[20] == pytest.approx(1.0) == max(rates)
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert Recipe(schedule="onecycle").rate_at(0, 1) > 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0}, r"rate: .*greater than 0 \(got 0\)"),
        ({"rate": "fast"}, "rate: .*number"),
        ({"optimizer": "lion"}, "optimizer: .*'rmsprop', 'adam' or 'sgd'"),
        ({"batch_size": 0}, "batch_size"),
        ({"batches": 0}, "batches"),
        ({"momentum": 1.0}, "momentum"),
        ({"rat": 0.1}, 'unknown recipe field "rat": choose from optimizer, rate, '),
        ({"batches": 10, "epochs": 2}, r"both batches \(10\) and epochs \(2\) are given"),
    ],
)
def test_wrong_settings_are_one_clear_line(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        make_recipe(**settings)
    assert "\n" not in str(caught.value)


def test_a_recipe_is_plain_data() -> None:
    recipe = Recipe(batches=5, schedule="cosine")
    assert Recipe(**json.loads(recipe.model_dump_json())) == recipe


def test_momentum_is_not_accepted_where_it_would_do_nothing() -> None:
    with pytest.raises(ConfigError, match=r"momentum \(0\.9\) is for rmsprop and sgd"):
        make_recipe(optimizer="adam", momentum=0.9)
    assert make_recipe(optimizer="sgd", momentum=0.9).momentum == 0.9
