"""Columns of a table by name."""

import numpy as np
import pytest

from crwn.data import in_order
from crwn.errors import DataError

X = np.arange(6).reshape(2, 3)


def test_columns_are_put_in_order() -> None:
    assert in_order(X, ("a", "b", "c"), ["a", "b", "c"], "t.csv") is X
    assert in_order(X, ("a", "b", "c"), ["c", "a", "b"], "t.csv").tolist() == [[2, 0, 1], [5, 3, 4]]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["a", "b"], "it has 'c'; give a, b"),
        (["a", "b", "d"], "it lacks 'd' and has 'c'"),
        (["a", "b", "c", "d"], "it lacks 'd'; give"),
    ],
)
def test_other_columns_are_named(wanted: list[str], message: str) -> None:
    with pytest.raises(DataError, match=f"t.csv has other columns than the task was learned from: {message}"):
        in_order(X, ("a", "b", "c"), wanted, "t.csv")


def test_names_that_repeat() -> None:
    for wanted in (["a", "b"], ["b", "a", "b"]):
        with pytest.raises(DataError, match="it repeats names"):
            in_order(X, ("a", "b", "b"), wanted, "t.csv")
    assert in_order(X, ("a", "b", "b"), ["a", "b", "b"], "t.csv") is X
