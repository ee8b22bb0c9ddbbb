"""`crwn learn-all`: a folder of unlike tables becomes one model with a leaderboard."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Crwn
from crwn.learner import Learner


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Circles of two columns, a wide threshold with text and gaps, and a file that is no table of its kind."""
    random, folder = np.random.default_rng(0), tmp_path / "tables"
    folder.mkdir()
    x = random.normal(size=(300, 2))
    rows = [f"{a:.4f},{b:.4f},{'in' if a * a + b * b < 1.4 else 'out'}" for a, b in x]
    (folder / "circles.csv").write_text("\n".join(["a,b,label", *rows]) + "\n")
    wide = random.normal(size=(200, 30))
    lines = [
        ";".join([f"{value:.3f}" for value in row] + [("red", "blue", "")[at % 3], "yes" if row[3] > 0 else "no"])
        for at, row in enumerate(wide)
    ]
    header = ";".join([*(f"c{at}" for at in range(30)), "colour", "label"])
    (folder / "wide.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "letter.csv").write_text("a,b\n1,2\n")
    return folder


def by_task(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["task"]: line for line in found["tables"]}


def test_unlike_tables_are_learned_and_the_broken_one_is_named(crwn: Crwn, tables: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.crwn", tmp_path / "board.csv"
    found = crwn("learn-all", model, tables, "--json", "--out", out, "--figure", tmp_path / "board.png")
    lines = by_task(found)
    # Far fewer columns than the model has inputs: the circle is found nevertheless, which no straight line does.
    assert lines["circles"]["accuracy"]["crwn"] > 88
    assert lines["circles"]["accuracy"]["logistic regression"] < 75
    assert lines["wide"]["accuracy"]["crwn"] > lines["wide"]["majority"]
    assert "has no column 'label'" in lines["letter"]["error"]
    assert found["summary"]["tables"] == 2
    assert found["summary"]["not_learned"] == 1
    counts = found["summary"]["against"]["gradient boosting"]
    assert sum(counts.values()) == 2
    with out.open() as file:
        assert [row["task"] for row in csv.DictReader(file)] == ["circles", "letter", "wide"]
    assert (tmp_path / "board.png").stat().st_size > 1000
    with Learner.load(model) as learner:
        assert learner.tasks == ["circles", "wide"]
    shown = crwn("learn-all", model, tables)
    assert "against logistic regression: better on " in shown


def test_a_stopped_command_resumes(crwn: Crwn, tables: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.crwn"
    first = by_task(crwn("learn-all", model, tables, "--json", "--no-peers"))
    board = model / "leaderboard.jsonl"
    lines = board.read_text().splitlines(keepends=True)
    board.write_text("".join(line for line in lines if '"wide"' not in line) + '{"task": "wi')  # cut short by a kill
    again = by_task(crwn("learn-all", model, tables, "--json", "--no-peers"))
    assert again["circles"] == first["circles"]
    assert again["wide"]["accuracy"] == first["wide"]["accuracy"]


def test_files_of_test_rows_without_a_header(crwn: Crwn, tmp_path: Path) -> None:
    random, folder = np.random.default_rng(1), tmp_path / "series"
    folder.mkdir()
    for part, count in (("TRAIN", 120), ("TEST", 80)):
        rows = random.normal(size=(count, 12))
        lines = ["\t".join([str(int(row.sum() > 0)), *(f"{value:.3f}" for value in row)]) for row in rows]
        (folder / f"sum_{part}.tsv").write_text("\n".join(lines) + "\n")
    found = crwn("learn-all", tmp_path / "m.crwn", folder, "--no-header", "--label", "first", "--json")
    line = by_task(found)["sum"]
    assert (line["rows"], line["tested"], line["columns"]) == (120, 80, 12)
    assert line["accuracy"]["crwn"] > 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--test", "1.5"), "--test 1.5: give a share between 0 and 1"),
        (("--out", "board.xlsx"), "give a file that ends in .csv or .md"),
        (("--label", "class"), "no column 'class'"),
        (("--pattern", "*.none"), "has no tables"),
    ],
)
def test_refused(crwn: Crwn, tables: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert message in crwn("learn-all", tmp_path / "m.crwn", tables, *options, fails=True)
    assert not (tmp_path / "m.crwn").exists()


def test_a_name_that_another_task_has_is_kept(crwn: Crwn, tables: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.crwn"
    crwn("learn", model, "wide", tables / "wide.csv", "--json")
    lines = by_task(crwn("learn-all", model, tables, "--no-peers", "--json"))
    assert "wide" in lines["wide"]["error"]
    assert "--replace" in lines["wide"]["error"] or "replace" in lines["wide"]["error"]
