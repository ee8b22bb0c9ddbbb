"""Examples in docstrings run: readers copy them."""

import doctest
import importlib
import pkgutil

import pytest

import crwn

# Rooms whose examples need an extra or much time have their own tests.
MODULES = [
    found.name
    for found in pkgutil.walk_packages(crwn.__path__, "crwn.")
    if not found.ispkg and found.name.split(".")[1] not in ("bench", "cli", "integrations", "serve")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs an extra: {error}")
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = sum(bool(found.examples) for name in MODULES for found in finder.find(importlib.import_module(name)))
    assert examples >= 8
