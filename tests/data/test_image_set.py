import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crwn.data.image_set import hold_out, index_labels, statistics
from crwn.errors import DataError


@given(st.lists(st.integers(0, 4), min_size=2, max_size=200))
def test_holding_out_divides_every_class_the_same_way_each_time(labels: list[int]) -> None:
    y = np.array(labels)
    train, test = hold_out(y, key="some set")
    assert sorted([*train, *test]) == list(range(len(y)))
    for label in np.unique(y):
        rows = int((y == label).sum())
        assert abs(int((y[test] == label).sum()) - rows / 5) <= 1
        assert (y[train] == label).any()
    again = hold_out(y, key="some set")
    assert np.array_equal(train, again[0])
    assert np.array_equal(test, again[1])


@given(st.lists(st.sampled_from(["north", "south", "east", "ö"]), min_size=1, max_size=50))
def test_class_indices_lead_back_to_the_labels(labels: list[str]) -> None:
    y, classes = index_labels(np.array(labels))
    assert [classes[at] for at in y] == labels
    assert list(classes) == sorted(set(labels))


def test_a_test_label_that_was_never_learned_is_refused() -> None:
    with pytest.raises(DataError, match=r"test label 'west' is not among the 2 classes"):
        index_labels(np.array(["north", "west"]), ("north", "south"))


def test_statistics_of_colour_images_are_per_channel() -> None:
    x = np.random.default_rng(0).integers(0, 256, (20, 3, 4, 5), dtype=np.uint8)
    mean, std = statistics(x)
    assert np.allclose(mean, (x / 255).mean(axis=(0, 2, 3)))
    assert np.allclose(std, (x / 255).std(axis=(0, 2, 3)))


def test_a_column_that_never_changes_does_not_divide_by_zero() -> None:
    mean, std = statistics(np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32))
    assert mean == (2.0, 5.0)
    assert std == (1.0, 1.0)
