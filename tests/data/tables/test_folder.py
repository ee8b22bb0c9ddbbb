"""Which files of a folder are tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.data.tables.folder import find_tables
from crwn.errors import DataError


def files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a,label\n1,x\n")
    return folder


def test_every_table_is_a_task_and_other_files_are_none(tmp_path: Path) -> None:
    files(tmp_path, "wine.csv", "more/iris.tsv", "zoo.csv.gz", "readme.md", "picture.png")
    assert [one.name for one in find_tables(tmp_path)] == ["iris", "wine", "zoo"]


def test_files_to_train_and_to_test_with_are_one_task(tmp_path: Path) -> None:
    found = find_tables(files(tmp_path, "Beef_TRAIN.tsv", "Beef_TEST.tsv", "lonely_TRAIN.tsv", "crash_test.csv"))
    assert [(one.name, one.train.name, one.test and one.test.name) for one in found] == [
        ("Beef", "Beef_TRAIN.tsv", "Beef_TEST.tsv"),
        ("crash_test", "crash_test.csv", None),
        ("lonely_TRAIN", "lonely_TRAIN.tsv", None),
    ]


def test_a_pattern_chooses(tmp_path: Path) -> None:
    files(tmp_path, "a.csv", "b.data")
    assert [one.name for one in find_tables(tmp_path, lambda path: path.suffix == ".data")] == ["b"]


@pytest.mark.parametrize(
    ("names", "message"),
    [((), "has no tables"), (("a.csv", "more/a.tsv"), 'would both be task "a"')],
)
def test_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_tables(files(tmp_path, *names))
    with pytest.raises(DataError, match="is no folder"):
        find_tables(tmp_path / "none")
