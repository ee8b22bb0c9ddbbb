from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crwn.data import read_image_set
from crwn.errors import DataError


def save(path: Path, x: np.ndarray, y: list[Any], **more: Any) -> Path:
    np.savez(path, x=x, y=y, **more)
    return path


def test_whole_numbers_up_to_255_are_kept_as_bytes_and_others_as_floats(tmp_path: Path) -> None:
    labels = [0, 1] * 5
    whole = np.arange(40.0).reshape(10, 4)
    assert read_image_set(save(tmp_path / "a.npz", whole, labels)).x_train.dtype == torch.uint8
    assert read_image_set(save(tmp_path / "b.npz", whole + 0.5, labels)).x_train.dtype == torch.float32
    assert read_image_set(save(tmp_path / "c.npz", whole * 10, labels)).x_train.dtype == torch.float32
    later = {"x_test": whole[:2] + 0.5, "y_test": [0, 1]}
    assert read_image_set(save(tmp_path / "d.npz", whole, labels, **later)).x_train.dtype == torch.float32


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((8, 9), (8, 9)),
        ((1, 8, 9), (8, 9)),
        ((8, 9, 1), (8, 9)),
        ((3, 8, 9), (3, 8, 9)),
        ((8, 9, 3), (3, 8, 9)),
        ((7,), (7,)),
    ],
)
def test_images_come_out_channels_first(tmp_path: Path, given: tuple[int, ...], kept: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 256, (10, *given), dtype=np.uint8)
    found = read_image_set(save(tmp_path / "a.npz", x, [0, 1] * 5))
    assert found.shape == kept
    assert len(found.x_train) == 8
    assert len(found.x_test) == 2


def test_test_rows_of_their_own_leave_all_others_for_learning(tmp_path: Path) -> None:
    x = np.arange(40.0).reshape(10, 4)
    path = save(tmp_path / "now.npz", x, ["a", "b"] * 5)
    later = save(tmp_path / "later.npz", x[:3], ["b", "b", "a"])
    found = read_image_set(path, test=later)
    assert len(found.x_train) == 10
    assert found.y_test.tolist() == [1, 1, 0]
    with pytest.raises(DataError, match=r"test label 'c' is not among"):
        read_image_set(path, test=save(tmp_path / "c.npz", x[:1], ["c"]))
    with pytest.raises(DataError, match=r"are \(4,\), those of .* \(3,\)"):
        read_image_set(path, test=save(tmp_path / "d.npz", x[:1, :3], ["a"]))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((4, 3)), ["a"] * 4, "has only the class 'a'"),
        (np.ones((2, 3)), ["a", "b"], "too few to hold any out"),
        (np.ones((4, 2, 5, 5)), [0, 0, 1, 1], "must have 1 or 3 channels"),
        (np.ones((4, 2, 5, 5, 5)), [0, 0, 1, 1], "tables, grey images or colour images"),
        (np.full((4, 3), 1e300), [0, 0, 1, 1], "do not fit into float32"),
    ],
)
def test_data_that_cannot_be_a_set_is_refused(tmp_path: Path, x: np.ndarray, y: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_image_set(save(tmp_path / "a.npz", x, y))


def test_rows_without_labels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,q\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"has no column 'label': it has p, q"):
        read_image_set(tmp_path / "a.csv")
