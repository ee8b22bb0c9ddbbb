"""docs/performance.md shows every figure of its records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from performance_page import ROOT, write_page

from crwn.bench import BENCHMARKS

RECORDS = ROOT / "results" / "bench"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "performance.md"
    write_page(RECORDS, path)
    return path


def test_page_and_records_are_the_same(page: Path) -> None:
    assert page.read_text() == (ROOT / "docs" / "performance.md").read_text()
    assert (page.parent / "images" / "scaling.png").exists()


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if (RECORDS / f"{name}.json").exists()])
def test_every_figure_is_shown(page: Path, name: str) -> None:
    details = json.loads((RECORDS / f"{name}.json").read_text())["details"]
    assert details
    assert all(f"`{figure}`" in page.read_text() for figure in details)


def test_a_benchmark_without_a_record_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    shutil.copy(RECORDS / "memory.json", tmp_path / "bench")
    write_page(tmp_path / "bench", tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Memory"]
