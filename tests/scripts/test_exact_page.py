"""docs/exact.md and its picture show what their records hold."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from exact_page import BENCH, IMAGES, PAGE, PICTURE, SIZE, accuracies, paint, read, tables
from fill_page import fill
from matplotlib.figure import Figure

from crwn.report.style import saved


def test_page_and_records_are_the_same() -> None:
    page = PAGE.read_text()
    assert fill(page, tables()) == page


def test_the_picture_is_that_of_the_record(tmp_path: Path) -> None:
    written = saved(tmp_path / "exact", SIZE, partial(paint, record=read(BENCH / "exact_curves.json")))
    assert [path.name for path in written] == ["exact.png", "exact.svg"]
    committed = PICTURE.with_suffix(".svg").read_text()
    if f"Matplotlib v{matplotlib.__version__}," not in committed:
        pytest.skip("the committed picture was drawn by another version of matplotlib")
    assert written[1].read_text() == committed


def test_every_point_of_the_record_is_drawn() -> None:
    record, figure = read(BENCH / "exact_curves.json"), Figure()
    paint(figure, record)
    left, right = figure.axes
    for size, part in record["parts"].items():
        drawn = [np.asarray(line.get_xdata()).tolist() for line in (right if size == IMAGES else left).lines]
        for way in ("batches", "exact", "newton"):
            if way in part:
                assert [one["seconds"] for one in part[way]] in drawn


def test_a_run_without_a_record_is_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exact_page.RUNS", tmp_path)
    assert "%" not in accuracies()
