"""Methods sized for handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping

from crwn.methods import Method, make_method
from crwn.scenarios import Scenario


def make_small(name: str, scenario: Scenario, settings: Mapping[str, str] | None = None, *, seed: int = 3) -> Method:
    """A method with a network that learns a task of digits in a second."""
    size = {"neuromodnet": "64", "flynet": "10d", "supsup": "128"}.get(name, "32")
    return make_method(name, scenario, size=size, seed=seed, settings=dict(settings or {}))[0]
