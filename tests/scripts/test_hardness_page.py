"""results/bench/hardness.md shows what its records hold, and names tests that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hardness_page import GUARDS, PAGE, page

TESTS = Path(__file__).parents[1]


def test_page_and_records_are_the_same() -> None:
    assert page() == PAGE.read_text()


@pytest.mark.parametrize("defect", GUARDS)
def test_the_named_tests_are_there(defect: str) -> None:
    file, _, test = GUARDS[defect][1].partition("::")
    assert f"def {test}(" in (TESTS / file).read_text()
