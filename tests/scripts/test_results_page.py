"""docs/results.md shows every table and figure, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from results_page import ROOT, write_page

from crwn.experiments.suite import SUITES, load_suite
from invented_records import write_suites


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("records")
    write_suites(base)
    return base


@pytest.fixture(scope="module")
def page(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "results.md"
    write_page(records, path)
    return path


def test_every_table_and_figure_is_shown(page: Path, records: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in SUITES:
        assert f"## {load_suite(name).title}" in text
        assert (records / "tables" / f"{name}.csv").exists()
        assert (records / "tables" / f"{name}.tex").exists()
    shown = {line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")}
    assert shown == {f"figures/{path.name}" for path in (page.parent / "figures").glob("*.png")}


def test_the_same_records_give_the_same_bytes(records: Path, page: Path, tmp_path: Path) -> None:
    write_page(records, tmp_path / "results.md")
    for path in page.parent.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / path.relative_to(page.parent)).read_bytes(), path.name


@pytest.mark.slow
def test_the_committed_page_and_records_are_the_same(tmp_path: Path) -> None:
    write_page(ROOT / "results", tmp_path / "docs" / "results.md", tables=tmp_path / "tables")
    assert (tmp_path / "docs" / "results.md").read_text() == (ROOT / "docs" / "results.md").read_text()
    for made in (tmp_path / "tables").iterdir():
        assert made.read_text() == (ROOT / "results" / "tables" / made.name).read_text(), made.name
    drawn = {path.name for path in (tmp_path / "docs" / "figures").iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "figures").iterdir()}
