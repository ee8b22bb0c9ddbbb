from pathlib import Path

import numpy as np
import pytest

from crwn.data import read_labelled
from crwn.errors import DataError
from image_folders import MakeFolders


def test_values_stay_as_they_stand_in_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3), dtype=np.uint8), y=["a", "b"])
    x, y = read_labelled(tmp_path / "a.npz")
    assert x.dtype == np.uint8
    assert y is not None
    assert y.tolist() == ["a", "b"]
    (tmp_path / "b.csv").write_text("p,q\n1,2\n3,4\n")
    x, y = read_labelled(str(tmp_path / "b.csv"))
    assert x.dtype == np.float32
    assert y is None


def test_class_folders_give_class_names_as_labels(make_folders: MakeFolders) -> None:
    x, y = read_labelled(make_folders({"cat": 2, "ant": 1}))
    assert x.shape == (3, 3, 5, 6)
    assert y is not None
    assert y.tolist() == ["ant", "cat", "cat"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.npz does not exist"):
        read_labelled(tmp_path / "nowhere.npz")
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"has an unknown format: give .npz"):
        read_labelled(tmp_path / "a.xlsx")
