"""Figures: everything the records suffice for, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from crwn.experiments.config import RunConfig
from crwn.experiments.paper import published
from crwn.report.figures import draw_all
from crwn.report.interactive import cards
from crwn.report.records import read_groups
from invented_records import write_record, write_suites


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("records")
    write_suites(base)
    folder = tmp_path_factory.mktemp("docs") / "figures"
    draw_all(base, folder)
    return folder


def test_every_figure_is_drawn(figures: Path) -> None:
    written = list(figures.iterdir())
    stems = {path.stem for path in written}
    for scenario in ("rotated-mnist", "permuted-mnist", "split-cifar100", "split-mini-imagenet"):
        for kind in ("accuracy-per-task", "accuracy-and-parameters", "accuracy-and-seconds"):
            assert f"{kind}-{scenario}-3-tasks" in stems
    assert {"pretrained", "ablation", "forgetting-rotated-mnist-3-tasks"} <= stems
    assert "accuracy-matrix-rotated-mnist-finetune-256-tasks=3-seed-0" in stems
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 500
                assert len(set(image.convert("L").tobytes())) > 20  # not blank
        else:
            assert path.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_runs_of_other_lengths_have_figures_of_their_own(tmp_path: Path) -> None:
    whole = [(method, None) for method in ("stl", "psp", "neuromodnet")]
    shorter = [(method, 20) for method in ("supsup", "batche", "mtl")]
    for method, tasks in (*whole, *shorter, ("finetune", 8)):
        write_record(tmp_path, RunConfig(scenario="rotated-mnist", method=method, size="256", tasks=tasks), 90.0)
    drawn = {path.stem for path in draw_all(tmp_path, tmp_path / "figures")}
    assert {f"accuracy-per-task-rotated-mnist{short}" for short in ("", "-20-tasks")} <= drawn
    assert "accuracy-per-task-rotated-mnist-8-tasks" not in drawn


def test_two_runs_are_a_table_not_a_figure(tmp_path: Path) -> None:
    for method in ("stl", "psp"):
        write_record(tmp_path, RunConfig(scenario="rotated-mnist", method=method, size="256"), 90.0)
    drawn = {path.stem for path in draw_all(tmp_path, tmp_path / "figures")}
    assert "accuracy-per-task-rotated-mnist" not in drawn


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert draw_all(tmp_path / "nothing", tmp_path / "figures") == []


def test_the_papers_points_are_at_its_own_counts() -> None:
    joint, batche = published("table1", "mtl", "rotated"), published("table1", "batche", "rotated")
    assert joint is not None
    assert batche is not None
    assert joint.params_per_task(268_800) == 268_800
    assert joint.params_per_task(7_467) == 269_000
    assert batche.params_per_task(9_285) == 9_285
    assert batche.params_per_task(4_506) == 9_000


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
    (card,) = [card for card in cards(read_groups(tmp_path)) if card.name.startswith("params")]
    lines = [(trace.name, trace.marker.color, len(trace.x)) for trace in card.figure.data]
    assert len(lines) == 4
    assert {count for *_, count in lines} == {1}
    assert len({(name, colour) for name, colour, _ in lines}) == 4
    looks = {name: colour for name, colour, _ in lines}
    assert looks["NeuroModNet-best"] != looks["NeuroModNet"]
