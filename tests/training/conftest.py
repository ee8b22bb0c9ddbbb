"""Tensors that the tests of training learn from."""

from __future__ import annotations

import pytest

from crwn.data import load
from digit_rows import Tensors


@pytest.fixture(scope="session")
def digit_tensors() -> Tensors:
    """The training digits, standardized, and their labels."""
    found = load("digits")
    return (found.x_train.flatten(1).float() - 78) / 96, found.y_train
