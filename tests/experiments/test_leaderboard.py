"""The rows that a leaderboard learns from and tests with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from crwn.data.tables import labels_of
from crwn.data.tables.folder import TableFiles
from crwn.errors import DataError
from crwn.experiments.leaderboard import Line, Reading, read_lines, read_split


def table(folder: Path, counts: dict[str, int]) -> TableFiles:
    labels = [name for name, count in counts.items() for _ in range(count)]
    path = folder / "t.csv"
    path.write_text("\n".join(["a,label", *(f"{at},{label}" for at, label in enumerate(labels))]) + "\n")
    return TableFiles("t", path)


def test_both_parts_have_the_classes_in_their_shares_and_no_row_is_in_both(tmp_path: Path) -> None:
    split = read_split(table(tmp_path, {"x": 59, "y": 71, "z": 48}), Reading())
    found = Counter(labels_of(split.test, "label").tolist())
    assert [found[name] for name in "xyz"] == pytest.approx([59 / 4, 71 / 4, 48 / 4], abs=1)
    assert not set(split.train.column(0)) & set(split.test.column(0))
    assert len(split.train) + len(split.test) == 178
    again = read_split(table(tmp_path, {"x": 59, "y": 71, "z": 48}), Reading())
    assert list(again.test.column(0)) == list(split.test.column(0))


def test_a_class_of_one_row_is_no_obstacle(tmp_path: Path) -> None:
    split = read_split(table(tmp_path, {"x": 20, "y": 20, "rare": 1}), Reading())
    assert len(split.test) == 10


def test_at_most_so_many_rows_are_learned_from(tmp_path: Path) -> None:
    split = read_split(table(tmp_path, {"x": 60, "y": 60}), Reading(most=30))
    assert (len(split.train), len(split.test)) == (30, 30)


def test_too_few_rows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 2 rows: too few"):
        read_split(table(tmp_path, {"x": 1, "y": 1}), Reading())


def test_lines_that_were_cut_short_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "leaderboard.jsonl").write_text('{"task": "a", "rows": 3}\n{"task": "b", "ro')
    assert read_lines(tmp_path) == {"a": Line("a", rows=3)}
