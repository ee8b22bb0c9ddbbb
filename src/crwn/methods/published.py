"""The optimisers and rates the paper trained with, by the kind of scenario."""

from __future__ import annotations

from collections.abc import Mapping

from crwn.recipe import Recipe, make_recipe
from crwn.scenarios import Scenario

COMPILED_FROM = 500  # batches of a task; compiling takes a minute or two the first time, seconds from then on


def has_images(scenario: Scenario) -> bool:
    """Whether inputs keep the shape of images (convolutional networks) instead of being flat rows."""
    return len(scenario.input_shape) > 1


def published_recipe(
    scenario: Scenario, overrides: Mapping[str, object], *, rate: float, image_rate: float, **settings: object
) -> Recipe:
    """RMSprop at a constant rate on flat rows, Adam with cosine decay on images, as long as the scenario says.

    Long tasks of images are compiled: a rule of sizes, so that a run that grows or resumes learns the same way.

    Args:
        overrides: what the caller wants otherwise; None values are as if they were not there.
        rate, image_rate: the method's rate on flat rows and on images.
        settings: what the method itself changes.
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
