"""Figures and the results page: everything the records suffice for, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from crwn.experiments.config import RunConfig
from crwn.experiments.paper import published
from crwn.experiments.suite import SUITES, load_suite
from crwn.report.figures import draw_all
from crwn.report.interactive import cards
from crwn.report.records import read_groups
from crwn.report.results_page import main, write_page

from .records import write_record


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("records")
    for name in SUITES:
        for cell in load_suite(name).cells():
            paper = cell.published
            write_record(base, cell.config(tasks=3), paper.accuracy if paper else 70.0, params=5000)
    matrix = RunConfig(scenario="rotated-mnist", method="finetune", size="256", tasks=3, matrix=True)
    write_record(base, matrix, 80.0, forgetting=3.0)
    return base


@pytest.fixture(scope="module")
def page(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "results.md"
    write_page(records, path)
    return path


def test_every_figure_is_drawn(page: Path) -> None:
    written = list((page.parent / "figures").iterdir())
    stems = {path.stem for path in written}
    for scenario in ("rotated-mnist", "permuted-mnist", "split-cifar100", "split-mini-imagenet"):
        for kind in ("accuracy-per-task", "accuracy-and-numbers", "accuracy-and-seconds"):
            assert f"{kind}-{scenario}" in stems
    assert {"pretrained", "ablation", "forgetting-rotated-mnist"} <= stems
    assert "accuracy-matrix-rotated-mnist-finetune-256-tasks=3-seed-0" in stems
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 500
                assert len(set(image.convert("L").tobytes())) > 20  # not blank
        else:
            assert path.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_the_page_shows_every_table_and_figure(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in SUITES:
        assert f"## {load_suite(name).title}" in text
    shown = {line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")}
    assert shown == {f"figures/{path.name}" for path in (page.parent / "figures").glob("*.png")}


def test_the_same_records_give_the_same_bytes(records: Path, page: Path, tmp_path: Path) -> None:
    assert main([str(records), str(tmp_path / "results.md")]) == 0
    for path in page.parent.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / path.relative_to(page.parent)).read_bytes(), path.name


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert draw_all(tmp_path / "nothing", tmp_path / "figures") == []


def test_page_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_papers_points_stand_at_its_own_numbers() -> None:
    joint, batche = published("table1", "mtl", "rotated"), published("table1", "batche", "rotated")
    assert joint is not None
    assert batche is not None
    assert joint.numbers(268_800) == 268_800
    assert joint.numbers(7_467) == 269_000
    assert batche.numbers(9_285) == 9_285
    assert batche.numbers(4_506) == 9_000


def test_matrices_of_runs_that_differ_in_length_have_files_and_cards_of_their_own(tmp_path: Path) -> None:
    for tasks, batches in ((2, 10), (3, 10), (3, 40)):
        config = RunConfig(
            scenario="rotated-digits", method="finetune", size="16", tasks=tasks, batches=batches, matrix=True
        )
        write_record(tmp_path, config, 80.0, forgetting=3.0)
    names = [path.name for path in draw_all(tmp_path, tmp_path / "figures") if "matrix" in path.name]
    assert len(set(names)) == len(names) == 6
    made = [card.name for card in cards(read_groups(tmp_path)) if card.name.startswith("matrix")]
    assert len(set(made)) == len(made) == 3


def test_runs_of_other_settings_or_lengths_are_lines_of_their_own(tmp_path: Path) -> None:
    common = {"scenario": "rotated-digits", "method": "neuromodnet", "size": "16"}
    for settings in ({}, {"recipe": "best"}, {"rate": "0.1"}):
        write_record(tmp_path, RunConfig(**common, settings=settings), 80.0)
    write_record(tmp_path, RunConfig(**common, tasks=2), 70.0)
    (card,) = [card for card in cards(read_groups(tmp_path)) if card.name.startswith("numbers")]
    lines = [(trace.name, trace.marker.color, len(trace.x)) for trace in card.figure.data]
    assert len(lines) == 4
    assert {count for *_, count in lines} == {1}
    assert len({(name, colour) for name, colour, _ in lines}) == 4
    looks = {name: colour for name, colour, _ in lines}
    assert looks["NeuroModNet-best"] != looks["NeuroModNet"]
