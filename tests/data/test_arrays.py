from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

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


@given(
    x=arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-9, 9, width=32)
    ),
    kind=st.sampled_from(["integers", "text", "none"]),
    position=st.integers(0, 5),
)
def test_csv_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, x: np.ndarray, kind: str, position: int
) -> None:
    labels = {"integers": range(len(x)), "text": [f'"a, {at}"' for at in range(len(x))], "none": [None] * len(x)}[kind]
    header, rows = [f"c{at}" for at in range(x.shape[1])], [[repr(float(cell)) for cell in row] for row in x]
    if kind != "none":
        position = min(position, len(header))
        header.insert(position, "label")
        for row, label in zip(rows, labels, strict=True):
            row.insert(position, str(label))
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    found = read_arrays(path)
    assert np.array_equal(found.x, x)
    if kind == "none":
        assert found.y is None
    else:
        assert found.y is not None
        assert found.y.tolist() == [label.strip('"') if isinstance(label, str) else label for label in labels]


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no columns"),
        ("label\n1\n", "has no columns beside 'label'"),
        ("a,label\n", "has no rows"),
        ("a,label,label\n1,2,3\n", "2 columns named 'label'"),
        ("a,label\nred,1\n", "'red' is not a number in column 'a', row 0 below the header"),
        ("a,b,label\n1,2,x\n1,,y\n", "there is nothing in column 'b', row 1 below the header"),
        ("a,kind\n1,red\n", "'red' is not a number in column 'kind', row 0 .*; no column is named 'label'"),
        ("1,2,2\n3,4,5\n", "has numbers in its first line"),
        ('a,label\n1,"x\n3,y\n5,"z\n', "a quote that is not closed"),
        ("a,label\n1," + '"' + "x" * 200_000 + '"\n', "cannot be read as CSV"),
        ("a;b;label\n1;2;3\n", "looks separated by ';'"),
        ("1.5,2\n3,4\n", "has numbers in its first line"),
        ("a,b,label\n1,2,3\n1,2\n", "row 1 below the header has 2 fields, the header names 3 columns"),
        ("a,b,label\n1,0.5,0.6,7\n", "row 0 below the header has 4 fields, the header names 3 columns"),
        ('a,label\n1,"x, y",2\n', "row 0 below the header has 3 fields, the header names 2 columns"),
        ("a,label\n1,2\n3,\n", "row 1 below the header has no label"),
        ("a,label\nnan,1\n", "1 NaN or infinite"),
    ],
)
def test_bad_csv_is_refused_with_the_values(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_arrays(tmp_path / "a.csv")


def test_labels_too_large_for_integers_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,label\n1,99999999999999999999\n2,5\n")
    found = read_arrays(tmp_path / "a.csv").y
    assert found is not None
    assert found.tolist() == ["99999999999999999999", "5"]
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


def test_columns_have_names_where_the_file_gives_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price,label,age\n1,x,3\n")
    assert read_arrays(tmp_path / "a.csv").columns == ("price", "age")
    (tmp_path / "b.csv").write_text("400,410\n1,3\n")
    assert read_arrays(tmp_path / "b.csv").columns == ("400", "410")
    np.savez(tmp_path / "a.npz", x=X)
    assert read_arrays(tmp_path / "a.npz").columns is None


def test_a_quoted_label_may_go_over_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,label\n1,"x\ny"\n2,"z, w"\n')
    found = read_arrays(tmp_path / "a.csv")
    assert found.y is not None
    assert found.y.tolist() == ["x\ny", "z, w"]
