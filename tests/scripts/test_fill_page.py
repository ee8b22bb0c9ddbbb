"""Generated parts go into their places, and nowhere else."""

from __future__ import annotations

import doctest

import fill_page
import pytest

PAGE = "# Page\n<!-- a -->\nold\n<!-- end -->\nbetween\n<!-- b -->\n<!-- end -->\nafter\n"


def test_parts_are_replaced_again_and_again() -> None:
    once = fill_page.fill(PAGE, {"a": "one", "b": "two"})
    assert once == "# Page\n<!-- a -->\none\n<!-- end -->\nbetween\n<!-- b -->\ntwo\n<!-- end -->\nafter\n"
    assert fill_page.fill(once, {"a": "one", "b": "two"}) == once


def test_a_part_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="0 places for c"):
        fill_page.fill(PAGE, {"c": "three"})


def test_example() -> None:
    assert doctest.testmod(fill_page).attempted == 1
    assert doctest.testmod(fill_page).failed == 0
