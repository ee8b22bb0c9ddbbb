import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crwn.data.arrays import read_arrays
from crwn.errors import DataError

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_npz_with_and_without_a_test_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1, 0, 1], other=[1])
    found = read_arrays(tmp_path / "a.npz")
    assert np.array_equal(found.x, X)
    assert found.x_test is None
    np.savez(tmp_path / "b.npz", x=X, y=["a", "b", "a", "b"], x_test=X[:1], y_test=["b"])
    found = read_arrays(tmp_path / "b.npz")
    assert found.y_test is not None
    assert found.y_test.tolist() == ["b"]


def test_npy_pairs_in_a_folder_or_by_name(tmp_path: Path) -> None:
    for prefix in ("", "site_"):
        np.save(tmp_path / f"{prefix}x.npy", X)
        np.save(tmp_path / f"{prefix}y.npy", [[3], [4], [3], [4]])
    for path in (tmp_path, tmp_path / "x.npy", tmp_path / "site_x.npy"):
        found = read_arrays(path)
        assert found.y is not None
        assert found.y.tolist() == [3, 4, 3, 4]
    np.save(tmp_path / "other.npy", X)
    with pytest.raises(DataError, match=r"must be named x.npy or NAME_x.npy"):
        read_arrays(tmp_path / "other.npy")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"y": [1]}, "has no array 'x'"),
        ({"x": X, "y": [1, 2]}, r"y in .* has shape \(2,\) for 4 rows"),
        (
            {"x": np.where(X == 5, np.nan, X), "y": [0, 1, 0, 1]},
            r"x in .* has 1 NaN or infinite values, the first at \(1, 2\)",
        ),
        ({"x": X, "y": [0, 1, np.nan, 1]}, "has 1 NaN or infinite labels"),
        ({"x": X.astype(str), "y": [0, 1, 0, 1]}, "must hold numbers"),
        ({"x": X[:, 0], "y": [0, 1, 0, 1]}, r"x in .* has shape \(4,\)"),
        ({"x": X[:0], "y": []}, r"has shape \(0, 3\)"),
        ({"x": X, "y": [0, 1, 0, 1], "x_test": X}, "only one of x_test and y_test"),
        ({"x": X, "y": [0, 1, 0, 1], "x_test": X[:, :2], "y_test": [0, 1, 0, 1]}, r"\(3,\), those of x_test \(2,\)"),
        ({"x": X, "y": [0, 1, 0, 1], "x_test": X, "y_test": [0]}, r"y_test in .* has shape \(1,\) for 4 rows"),
        ({"x": X, "y": np.array([0, "a", None, 1], dtype=object)}, "never unpickled"),
    ],
)
def test_bad_arrays_are_refused_with_the_values(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **parts)
    with pytest.raises(DataError, match=message):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_truncated_npz_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=[0, 1, 0, 1])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cannot be read as .npz"):
        read_arrays(path)


def test_labels_too_large_for_integers_stay_what_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=[1e20, 1.0, 2.0, 1.0])
    found = read_arrays(tmp_path / "a.npz").y
    assert found is not None
    assert found.tolist() == [1e20, 1.0, 2.0, 1.0]


def test_byte_labels_must_be_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=np.array([b"a", b"\xff", b"a", b"b"]))
    with pytest.raises(DataError, match="labels that are not UTF-8 text"):
        read_arrays(tmp_path / "a.npz")


def test_endings_may_be_capitals(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1, 0, 1])
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert np.array_equal(read_arrays(tmp_path / "A.NPZ").x, X)


def test_idx_files_take_their_labels_from_beside_them(tmp_path: Path) -> None:
    images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4])
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(images)
    assert read_arrays(tmp_path / "t10k-images-idx3-ubyte").y is None
    with gzip.open(tmp_path / "t10k-labels-idx1-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    found = read_arrays(tmp_path / "t10k-images-idx3-ubyte")
    assert found.x.tolist() == [[[1, 2]], [[3, 4]]]
    assert found.y is not None
    assert found.y.tolist() == [7, 9]


def test_an_npz_without_x_lists_what_it_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=X, labels=[0, 1, 0, 1])
    with pytest.raises(DataError, match=r"has no array 'x': it has images, labels"):
        read_arrays(tmp_path / "a.npz")
