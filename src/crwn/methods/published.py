"""The optimizers and rates that the paper trained with, by the kind of scenario, and those of `recipe=best`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel

from crwn.errors import ConfigError
from crwn.methods import method
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe, make_recipe

COMPILED_FROM = 500  # batches of a task; compiling takes a minute or two the first time, then seconds

# What the search on held-out training images found (benchmarks/baseline_search.py): at most nine candidates for each.
TUNED: dict[str, dict[str, object]] = {
    "stl": {"optimizer": "adam", "schedule": "onecycle", "rate": 0.003},
    "supsup": {"optimizer": "rmsprop", "schedule": "cosine", "rate": 0.0009},
    "batche": {"optimizer": "rmsprop", "schedule": "cosine", "rate": 0.03},
    "flynet": {"optimizer": "adam", "schedule": "onecycle", "rate": 0.3},
}


class TunedOptions(method.Options):
    """Options of a method that has a tuned recipe."""

    recipe: Literal["paper", "best"] = "paper"


def tuned(name: str, options: BaseModel, scenario: Scenario) -> dict[str, object]:
    """The recipe's fields that `recipe=best` sets for the method of this name; none for the paper's recipe.

    Raises:
        ConfigError: the inputs are images, where nothing was searched.
    """
    if not isinstance(options, TunedOptions) or options.recipe == "paper":
        return {}
    if has_images(scenario):
        raise ConfigError("recipe=best is for flat rows: on images the recipe is the paper's")
    if name not in TUNED:
        raise ConfigError(f"recipe=best is not known for {name}: it was searched for {', '.join(TUNED)}")
    return dict(TUNED[name])


def published_recipe(
    scenario: Scenario, overrides: Mapping[str, object], *, rate: float, image_rate: float, **settings: object
) -> Recipe:
    """RMSprop at a constant rate on flat rows, Adam with cosine decay on images, for the scenario's budget.

    Networks for images are compiled where a task has at least `COMPILED_FROM` batches. The rule depends on sizes
    alone, so that a run that is resumed or extended trains in the same way.

    Args:
        overrides: fields of the recipe that the caller sets; None values are ignored.
        rate, image_rate: the method's learning rate on flat rows and on images.
        settings: fields of the recipe that the method sets.
    """
    if has_images(scenario):
        usual: dict[str, object] = {"optimizer": "adam", "schedule": "cosine", "rate": image_rate}
    else:
        usual = {"optimizer": "rmsprop", "schedule": "constant", "rate": rate}
    given = {name: value for name, value in overrides.items() if value is not None}
    length = {} if given.keys() & {"batches", "epochs"} else dict(scenario.budget)
    recipe = make_recipe(**(usual | settings | length | given))
    long = len(scenario) > 0 and recipe.steps(len(scenario[0].train)) >= COMPILED_FROM
    if has_images(scenario) and long and "compile" not in given:
        return recipe.model_copy(update={"compile": True})
    return recipe
