"""CSV files as programs write them, and the messages about those that cannot be read."""

from __future__ import annotations

import gzip
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from crwn.data.tables import labels_of, learn_encoding, read_csv
from crwn.errors import DataError


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
    table = read_csv(path)
    assert np.array_equal(learn_encoding(table).apply(table), x)
    if kind != "none":
        assert labels_of(table, "label").tolist() == [
            label.strip('"') if isinstance(label, str) else label for label in labels
        ]


TEXT = "größe,label\n1.5,ja\n2.5,nein\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.encode("cp1252"),
        gzip.compress(TEXT.encode(), mtime=0),
        TEXT.replace(",", ";").encode(),
        TEXT.replace(",", "\t").encode(),
        TEXT.replace(",", "|").encode(),
        TEXT.replace(",", ";").replace(".", ",").encode(),  # the decimal comma
        ("sep=;\n" + TEXT.replace(",", ";")).encode(),
        TEXT.replace("\n", "\r\n").encode(),
        ("\n" + TEXT.replace("ja\n", "ja\n\n")).encode(),
    ],
)
def test_separators_and_encodings_are_detected(data: bytes) -> None:
    table = read_csv(data)
    assert table.names == ("größe", "label")
    assert learn_encoding(table).apply(table).tolist() == [[1.5], [2.5]]
    assert labels_of(table, "label").tolist() == ["ja", "nein"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no columns"),
        ("label\n1\n", "has no columns beside label"),
        ("a,label\n", "has no rows"),
        ("a,label,label\n1,2,3\n", "2 columns named 'label'"),
        ("a,b,label\n1,2,x\n1,2,y\n1,l2,z\n", "'l2' is not a number in column 'b' of the CSV, line 4, .*--text b"),
        ("1,2,2\n3,4,5\n", "has numbers in its first line"),
        ("1.5,2\n3,4\n", "has numbers in its first line"),
        ('a,label\n1,"x\n3,y\n5,"z\n', "a quote that is not closed"),
        ("a,label\n1," + '"' + "x" * 200_000 + '"\n', "cannot be read as CSV"),
        ("a,b,label\n1,2,3\n\n1,2\n", "line 4 has 2 fields, the header names 3 columns"),
        ("a,b,label\n1,0.5,0.6,7\n", "line 2 has 4 fields, the header names 3 columns"),
        ('a,label\n1,"x, y",2\n', "line 2 has 3 fields, the header names 2 columns"),
        ("a,label\n1,2\n3,\n", "line 3 has no label in column 'label'"),
        ("a,label\nnan,1\n", "column 'a' of the CSV has no values"),
        ("a,label\ninf,1\n2,1\n3,1\n", "'inf' is not a number in column 'a' of the CSV, line 2"),
        ("a\0,label\n1,1\n", "zero bytes"),
    ],
)
def test_bad_csv_is_refused_with_the_line_and_the_column(text: str, message: str) -> None:
    def read() -> None:
        table = read_csv(text.encode())
        labels_of(table, "label")
        learn_encoding(table)

    with pytest.raises(DataError, match=message):
        read()


def test_lines_are_counted_as_editors_do() -> None:
    table = read_csv(b'a,label\n\n1,"x\ny"\n\n2,"z, w"\n3,v\n')
    assert [table.place(row) for row in range(3)] == ["line 3", "line 6", "line 7"]
    assert labels_of(table, "label").tolist() == ["x\ny", "z, w", "v"]


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        read_csv(gzip.compress(b"a,label\n" + b"1,2\n" * 1000), most=1000)


def test_labels_too_large_for_integers_stay_what_they_are() -> None:
    table = read_csv(b"a,label\n1,99999999999999999999\n2,5\n")
    assert labels_of(table, "label").tolist() == ["99999999999999999999", "5"]


def test_whole_numbers_may_name_columns() -> None:
    assert read_csv(b"400,410\n1,3\n").names == ("400", "410")


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,label\n1,2\n" * 99)[:-20])
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_csv(tmp_path / "a.csv.gz")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\xd8garb", b"a,label\n\x8f,\x8d\n"])
def test_bytes_in_no_known_encoding_are_refused_in_a_line(data: bytes) -> None:
    with pytest.raises(DataError, match=r"it is no text in UTF-8, UTF-16 or Windows-1252$"):
        read_csv(data)


def test_a_file_without_a_header_has_numbered_columns() -> None:
    table = read_csv(b"1,red\n2,blue\n", header=False)
    assert (table.names, len(table), table.place(1)) == (("column 1", "column 2"), 2, "line 2")
    assert list(table.column(1)) == ["red", "blue"]
    numbers = read_csv(b"1;2\n3;4\n", header=False).block([0, 1])
    assert numbers is not None
    assert numbers.tolist() == [[1, 2], [3, 4]]


def test_text_of_too_many_cells_is_refused_before_it_is_split() -> None:
    """Short cells take some ten times their size in memory, and archives of them are small."""
    data = gzip.compress(b"a,label\n" + b"1,2\n" * 1_000_000)
    with pytest.raises(DataError, match="about 2,000,002 cells, the most is 1,000,000"):
        read_csv(data, "the CSV", most=2**28, cells=1_000_000)
    assert len(read_csv(data, "the CSV", most=2**28)) == 1_000_000


def test_numbers_are_read_without_keeping_other_threads_waiting() -> None:
    """A service answers while it reads a table: Python's lock is held for a part of it at a time."""
    line = ",".join(f"{value}.25" for value in range(40))
    data = ",".join(f"c{at}" for at in range(40)).encode() + f"\n{line}".encode() * 50_000
    beats: list[float] = []
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.001):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    began = time.monotonic()
    table = read_csv(data, "the CSV")
    found = table.block(range(40))
    took = time.monotonic() - began
    ended.set()
    thread.join()
    assert found is not None
    assert found.shape == (50_000, 40)
    assert (found == [value + 0.25 for value in range(40)]).all()
    assert max(np.diff([began, *beats])) < 0.25 * took
