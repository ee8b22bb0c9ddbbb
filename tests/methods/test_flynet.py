"""FlyNet as a method: its counts and its errors."""

from __future__ import annotations

import pytest

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.scenarios import Scenario
from reference_network import CountsOf


@pytest.mark.parametrize(("size", "learned"), [("10d", 7841), ("20d", 15681), ("30d", 23521), ("40d", 31361)])
def test_counts(size: str, learned: int, flat_counts: CountsOf) -> None:
    found = flat_counts("flynet", size)
    assert (found.params_per_task, found.bytes_per_task) == (learned, 4 * learned)
    assert found.note


def test_images_are_an_error(stripes: Scenario) -> None:
    with pytest.raises(ConfigError, match="flynet takes flat rows"):
        make_method("flynet", stripes)
