"""docs/scale.md shows what its record holds."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from fill_page import fill
from scale_page import PAGE, RECORD, busy, paint, tables

from crwn.report.style import saved


def test_page_and_record_are_the_same() -> None:
    page = PAGE.read_text()
    assert fill(page, tables(json.loads(RECORD.read_text()))) == page


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    written = saved(tmp_path / "scale", (10.0, 4.0), partial(paint, record=json.loads(RECORD.read_text())))
    assert [path.name for path in written] == ["scale.png", "scale.svg"]


def test_simulation_agrees_with_the_measured_run() -> None:
    record = json.loads(RECORD.read_text())
    if busy(record["costs"]):
        pytest.skip("the record was made on a busy machine: run benchmarks/scale_simulation.py on a quiet one")
    check = record["check"]
    assert check["measured_seconds"] == pytest.approx(check["simulated_seconds"], rel=0.25)
