"""Methods by name, and the options and recipe fields among their settings."""

from __future__ import annotations

import pytest

from crwn.errors import ConfigError
from crwn.methods import METHODS, make_method
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.scenarios import Scenario
from crwn.training.recipe import Recipe


def test_settings_are_options_or_recipe_fields(mnist_shaped: Scenario) -> None:
    settings = {"weights": "hadamard", "recipe": "best", "rate": "0.05", "batch_size": "64"}
    method, overrides = make_method("neuromodnet", mnist_shaped, size="256", settings=settings)
    assert isinstance(method, NeuroModNetMethod)
    assert method.settings.weights == "hadamard"
    assert overrides == {"rate": 0.05, "batch_size": 64}
    recipe = method.recipe(**overrides)
    assert (recipe.optimizer, recipe.rate, recipe.batch_size, recipe.schedule) == ("adam", 0.05, 64, "onecycle")


@pytest.mark.parametrize(
    ("name", "size", "settings", "words"),
    [
        ("neuromodnett", None, {}, ['"neuromodnett"', 'did you mean "neuromodnet"', *METHODS]),
        ("neuromodnet", "10d", {}, ['"10d"', "like 256"]),
        ("neuromodnet", "0", {}, ['"0"']),
        ("flynet", "256", {}, ['"256"', "like 10d"]),
        ("stl", "-4", {}, ['"-4"']),
        ("flynet", None, {"gama": "1"}, ['"gama"', '"gamma"', "modulation", "rate"]),
        ("flynet", None, {"modulation": "none"}, ["modulation=none", "'both'"]),
        ("stl", None, {"rate": "fast"}, ["rate=fast"]),
        ("stl", None, {"rate": "-1"}, ["rate=-1"]),
        ("neuromodnet", "64", {"pretrained": "true", "weights": "hadamard"}, ["pretrained", "hadamard"]),
        ("replay", None, {"buffer_bytes": "100"}, ["100 bytes", "786"]),
        ("flynet", None, {"inputs_per_node": "1000"}, ["1000", "784"]),
    ],
)
def test_errors_are_one_line_that_names_the_values(
    name: str, size: str | None, settings: dict[str, str], words: list[str], mnist_shaped: Scenario
) -> None:
    with pytest.raises(ConfigError) as raised:
        make_method(name, mnist_shaped, size=size, settings=settings)
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", METHODS)
def test_no_option_hides_a_field_of_the_recipe(name: str) -> None:
    assert not METHODS[name].Options.model_fields.keys() & Recipe.model_fields.keys()
