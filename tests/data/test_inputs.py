"""What people hand over becomes rows and labels, or is refused in one line."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from crwn.data.dataset import Rows
from crwn.data.inputs import (
    as_tensor,
    check_finite,
    classes_of,
    collect,
    indices,
    label_array,
    plain_labels,
    rows_of,
    shaped,
)
from crwn.errors import DataError


class Pairs(Dataset[object]):
    def __init__(self, pairs: list[object]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, at: int) -> object:
        return self.pairs[at]


class Stream(IterableDataset[tuple[torch.Tensor, str]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, str]]:
        yield torch.zeros(3), "a"
        yield torch.ones(3), "b"


@pytest.mark.parametrize(
    "given",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int64),
        np.array([[1, 2], [3, 4]], dtype=np.uint16),
        np.array([[1, 2], [3, 4]], dtype=">f4"),
        np.array([[1, 2], [3, 4]], dtype=np.longdouble),
        np.array([[3, 4], [1, 2]], dtype=np.float64)[::-1],
        np.array([[1, 3], [2, 4]], dtype=np.float32).T,
        torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64, requires_grad=True),
    ],
)
def test_numbers_of_any_kind_become_float32(given: object) -> None:
    found = as_tensor(given)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_bytes_stay_bytes_and_nothing_is_copied() -> None:
    array = np.zeros((2, 3), dtype=np.uint8)
    found = as_tensor(array)
    assert found.dtype == torch.uint8
    assert found.data_ptr() == array.ctypes.data
    array.flags.writeable = False
    assert as_tensor(array).tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("given", [[["a"]], np.array([[None]]), np.array([[1j]]), [[1], [1, 2]], object()])
def test_what_is_not_numbers_is_refused(given: object) -> None:
    with pytest.raises(DataError, match="inputs must be"):
        as_tensor(given)


def test_rows_take_the_shape_of_the_model() -> None:
    images = torch.zeros(5, 4, 3)
    assert shaped(images, (12,)).shape == (5, 12)
    assert shaped(torch.zeros(5, 12), (1, 4, 3)).shape == (5, 1, 4, 3)
    assert shaped(images, None) is images
    assert shaped(torch.zeros(0, 12), (12,)).shape == (0, 12)
    for wrong in (torch.zeros(5, 11), torch.zeros(12), torch.zeros(5)):
        with pytest.raises(DataError, match=r"this model takes \(12,\) \(12 values per row\)"):
            shaped(wrong, (12,))
    with pytest.raises(DataError, match="single number"):
        shaped(torch.tensor(3.0), (12,))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite_is_named(value: float) -> None:
    x = torch.zeros(9000, 3)
    check_finite(x)
    x[[5000, 7000], 1] = value
    with pytest.raises(DataError, match="row 5000 has NaN or infinite values"):
        check_finite(x)
    check_finite(torch.zeros(2, 2, dtype=torch.uint8))


def test_values_too_large_for_float32_are_not_finite() -> None:
    with pytest.raises(DataError, match="row 1 has NaN or infinite"):
        rows_of(np.array([[0.0], [1e60]]), shape=(1,))


@pytest.mark.parametrize(
    "data",
    [
        Pairs([(np.zeros(3), "a"), (np.ones(3), "b")]),
        Stream(),
        DataLoader(Pairs([(torch.zeros(3), "a"), (torch.ones(3), "b")]), batch_size=2),
        DataLoader(Stream(), batch_size=1),
    ],
    ids=["dataset", "iterable", "loader", "loader of iterable"],
)
def test_datasets_and_loaders_are_collected(data: object) -> None:
    x, labels = collect(data)
    assert x.tolist() == [[0.0] * 3, [1.0] * 3]
    assert labels == ["a", "b"]


def test_labels_of_a_loader_are_plain() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(5, 2), torch.arange(5)), batch_size=2)
    assert collect(loader)[1] == [0, 1, 2, 3, 4]


def test_datasets_that_cannot_be_used() -> None:
    with pytest.raises(DataError, match="pairs of row and label, got Tensor"):
        collect(Pairs([torch.zeros(3)]))
    with pytest.raises(DataError, match="empty"):
        collect(Pairs([]))
    with pytest.raises(DataError, match=r"one shape, got \(2,\) and \(3,\)"):
        collect(Pairs([(torch.zeros(3), 0), (torch.zeros(2), 0)]))


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.array([1, 0]), [1, 0]),
        (torch.tensor([1, 0]), [1, 0]),
        (np.array(["a", "b"]), ["a", "b"]),
        ([np.int64(1), torch.tensor(0)], [1, 0]),
        (np.array([np.int64(1), "a", None], dtype=object), [1, "a", None]),
        ((x for x in "ab"), ["a", "b"]),
        (np.array([True, False]), [True, False]),
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "b")]),
    ],
)
def test_labels_become_plain_values(given: object, plain: list[object]) -> None:
    found = plain_labels(given)
    assert found == plain
    assert [type(label) for label in found] == [type(label) for label in plain]


def test_labels_from_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    assert plain_labels(pandas.Series(["b", "a"])) == ["b", "a"]
    assert plain_labels(pandas.Series([1, 2])) == [1, 2]


@pytest.mark.parametrize("wrong", [np.zeros((2, 2)), [[1], [2]], np.array([[1], [2, 3]], dtype=object), 5, np.int64(5)])
def test_labels_that_cannot_be_used(wrong: object) -> None:
    with pytest.raises(DataError, match="labels must be"):
        plain_labels(wrong)


def test_classes_are_sorted_where_they_can_be() -> None:
    assert classes_of([3, 1, 2, 1]) == (1, 2, 3)
    assert classes_of(["b", 1, "a", "b"]) == ("b", 1, "a")
    with pytest.raises(DataError, match="NaN"):
        classes_of([1.0, float("nan")])


def test_labels_outside_the_classes_are_named_with_the_classes() -> None:
    assert indices(["b", "a"], ("a", "b"), "t").tolist() == [1, 0]
    with pytest.raises(DataError, match="label 'c' is not a class of task \"t\": it has 'a', 'b'"):
        indices(["a", "c"], ("a", "b"), "t")
    with pytest.raises(DataError, match=r"has 0, 1, .*11, \.\.\."):
        indices([-1], tuple(range(100)), "t")


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        ((3, 5), "i"),
        (("a", "bcd"), "U"),
        ((True, False), "b"),
        ((0.5, 1.5), "f"),
        ((1, "a"), "O"),
        (((1, 2), (3, 4)), "O"),
    ],
)
def test_predicted_labels_are_the_labels_taught(classes: tuple[object, ...], kind: str) -> None:
    found = label_array(classes, np.array([1, 0, 1]))
    assert found.dtype.kind == kind
    assert found.tolist() == [classes[1], classes[0], classes[1]]


def test_rows_pass_as_they_are() -> None:
    rows = Rows(torch.zeros(2, 3))
    assert rows_of(rows, shape=(99,)) is rows
    assert len(rows_of(DataLoader(TensorDataset(torch.zeros(5, 2), torch.zeros(5))), shape=(2,))) == 5
