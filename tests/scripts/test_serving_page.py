"""docs/serving.md shows what its records hold."""

from __future__ import annotations

from fill_page import fill
from serving_page import PAGE, parts


def test_page_and_records_are_the_same() -> None:
    page = PAGE.read_text()
    assert fill(page, parts()) == page
