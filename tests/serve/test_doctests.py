"""Examples in the docstrings of this room run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import crwn.serve


def test_examples_in_docstrings() -> None:
    names = [found.name for found in pkgutil.walk_packages(crwn.serve.__path__, "crwn.serve.")]
    results = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) >= 2
