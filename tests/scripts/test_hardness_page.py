"""results/bench/hardness.md shows what its records hold, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hardness_page import BODIES, GUARDS, PAGE, page

TESTS = Path(__file__).parents[1]


def test_page_and_records_are_the_same() -> None:
    assert page() == PAGE.read_text()


NAMED = [test for _, test in GUARDS.values()] + [test for _, tests in BODIES.values() for test in tests]


@pytest.mark.parametrize("name", [*NAMED, *re.findall(r"`tests/([^`]+::[^`]+)`", PAGE.read_text())])
def test_the_named_tests_are_there(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test}(" in (TESTS / file).read_text()
