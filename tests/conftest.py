"""What tests of several rooms share."""

from __future__ import annotations

import pytest

from crwn.data import ImageSet, load
from crwn.data.download import UnreachableError


@pytest.fixture(scope="session")
def mnist() -> ImageSet:
    """MNIST by the product's own way, kept in the user's cache so that a machine fetches it once."""
    try:
        return load("mnist")
    except UnreachableError as error:
        pytest.skip(f"no network and no MNIST in the cache: {error}")
