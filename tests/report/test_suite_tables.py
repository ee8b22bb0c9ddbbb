"""Tables: ours, the paper's and the difference, in every format."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from crwn.experiments.config import RunConfig
from crwn.experiments.folder import RunFolder
from crwn.experiments.suite import SUITES, fill, fill_best, load_suite
from crwn.report.suite_tables import as_csv, suite_latex, suite_text
from invented_records import write_record


def row_of(text: str, label: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ours_and_the_papers_side_by_side(tmp_path: Path) -> None:
    suite = load_suite("table1")
    cell = next(c for c in suite.cells() if c.row.label == "NeuroModNet, FC256")
    for seed, accuracy in enumerate((90.5, 90.7, 90.9)):
        write_record(tmp_path, cell.config(seed=seed), accuracy, params=1299)
    filled = [fill(c, tmp_path, tasks=None, seeds=[0, 1, 2]) for c in suite.cells()]
    text = suite_text(suite, filled)
    assert row_of(text, "NeuroModNet, FC256") == [
        "NeuroModNet, FC256", "90.70 ± 0.20", "90.59 ± 0.06", "+0.11", "not run", "90.61 ± 0.04", "–",
    ]  # fmt: skip
    costs = text[text.index("What a task costs") :]
    assert row_of(costs, "NeuroModNet, FC256")[:7] == [
        "NeuroModNet, FC256", "1,299", "1,299", "1K", "1:207", "1:207", "5,196",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SUITES)
def test_all_published_numbers_are_printed_even_when_nothing_is_run(name: str, tmp_path: Path) -> None:
    suite = load_suite(name)
    filled = [fill(cell, tmp_path, tasks=None, seeds=[0]) for cell in suite.cells()]
    text, latex = suite_text(suite, filled), suite_latex(suite, filled)
    rows = {row["row"] + row["column"]: row for row in csv.DictReader(io.StringIO(as_csv(filled)))}
    published = [found for found in filled if found.cell.published is not None]
    assert len(published) >= 2
    for found in published:
        paper = found.cell.published
        assert paper is not None
        assert f"{paper.accuracy:.2f} ± {paper.deviation:.2f}" in row_of(text, found.cell.row.label)
        assert rf"{paper.accuracy:.2f} $\pm$ {paper.deviation:.2f}" in latex
        assert float(rows[found.cell.row.label + found.cell.column.label]["paper_accuracy"]) == paper.accuracy


def test_short_runs_are_labelled(tmp_path: Path) -> None:
    suite = load_suite("table2")
    cell = next(c for c in suite.cells() if c.row.label == "STL")
    write_record(tmp_path, cell.config(tasks=2).model_copy(update={"epochs": 25}), 80.0)
    found = fill_best(cell, tmp_path)
    assert found.unusual == "2 tasks, 25 epochs"
    assert "80.00 (2 tasks, 25 epochs, 1 seed)" in suite_text(suite, [found])


def test_closed_forms_are_labelled_instead_of_their_budget(tmp_path: Path) -> None:
    suite = load_suite("table2")
    cell = next(c for c in suite.cells() if c.row.label == "FlyNet for images, 10k, best")
    config = cell.config().model_copy(update={"epochs": 40})
    write_record(tmp_path, config, 87.0, count_note="a context; learned in closed form, the budget is not used")
    found = fill_best(cell, tmp_path)
    assert found.unusual == "closed form"
    text = suite_text(suite, [found])
    assert "87.00 (closed form, 1 seed)" in text
    assert "40 epochs)" not in text


def test_best_records_prefer_the_papers_protocol(tmp_path: Path) -> None:
    cell = next(load_suite("table1").cells())
    write_record(tmp_path, cell.config(tasks=2), 50.0)
    write_record(tmp_path, cell.config(tasks=20), 60.0)
    assert fill_best(cell, tmp_path).accuracy == 60.0
    write_record(tmp_path, cell.config(), 70.0)
    assert fill_best(cell, tmp_path).accuracy == 70.0


def test_a_difference_is_told_where_a_shorter_run_is_comparable(tmp_path: Path) -> None:
    of_paper = (cell for cell in load_suite("table1").cells() if cell.row.size == "256" and cell.row.paper)
    cells = {(cell.row.method, cell.column.key): cell for cell in of_paper}
    steady, forgetful = cells["supsup", "permuted"], cells["psp", "permuted"]
    write_record(tmp_path, steady.config(tasks=20), 95.23)
    write_record(tmp_path, forgetful.config(tasks=20), 95.0, forgetting=1.0)
    assert fill_best(steady, tmp_path).difference == pytest.approx(1.0)
    assert fill_best(forgetful, tmp_path).difference is None  # with more tasks it would have forgotten more
    batche = cells["batche", "permuted"]
    write_record(tmp_path, batche.config(tasks=2), 92.0)
    assert fill_best(batche, tmp_path).difference is None  # half of it the first task, which trained the weights
    images = next(c for c in load_suite("table2").cells() if c.row.label == "STL")
    write_record(tmp_path, images.config().model_copy(update={"epochs": 25}), 80.0)
    assert fill_best(images, tmp_path).difference is None
    full = next(cell for cell in load_suite("table2").cells() if cell.row.method == "supsup")
    write_record(tmp_path, full.config(tasks=2), 90.0)  # whole epochs, but of classes that may be easy ones
    assert fill_best(full, tmp_path).difference is None


def test_one_task_is_no_average(tmp_path: Path) -> None:
    cell = next(c for c in load_suite("table2").cells() if c.row.label == "STL")
    write_record(tmp_path, cell.config(tasks=5).model_copy(update={"epochs": 25}), 80.0)
    write_record(tmp_path, cell.config(tasks=1), 90.0)  # 250 epochs
    assert fill_best(cell, tmp_path).accuracy == 80.0


def test_best_records_of_one_size_are_not_those_of_another(tmp_path: Path) -> None:
    cells = {c.row.label: c for c in load_suite("table1").cells() if c.column.key == "rotated"}
    write_record(tmp_path, cells["NeuroModNet-Hadamard, FC4096"].config(tasks=3), 95.0)
    assert fill_best(cells["NeuroModNet, FC4096"], tmp_path).results == ()
    assert fill_best(cells["NeuroModNet-Hadamard, FC4096, cosine"], tmp_path).results == ()


def test_time_against_supsup(tmp_path: Path) -> None:
    suite = load_suite("table2")
    for cell in suite.cells():
        if cell.column.key == "cifar100" and cell.row.label in ("SupSup", "NeuroModNet, 1d"):
            write_record(tmp_path, cell.config(), 80.0, params=4968)
    text = suite_text(suite, [fill_best(cell, tmp_path) for cell in suite.cells()])
    costs = text[text.index("What a task costs, Split-CIFAR100") :]
    assert row_of(costs, "NeuroModNet, 1d")[-4:] == ["2.2", "243", "1.00", "0.98"]
    assert row_of(costs, "NeuroModNet, 1d")[4] == "1:55.3"


def test_seconds_are_those_of_the_quickest_task(tmp_path: Path) -> None:
    config = RunConfig(scenario="rotated-mnist", method="stl", size="256")
    folder = RunFolder(write_record(tmp_path, config, 90.0))
    lines = folder.lines()
    lines[3]["training_seconds"] = 500.0  # the run was paused
    lines[5]["training_seconds"] = 1.5
    folder.keep(lines)
    assert folder.quickest() == 1.75
    cell = next(cell for cell in load_suite("table1").cells() if cell.config() == config)
    assert fill_best(cell, tmp_path).seconds == 1.75
    assert fill_best(cell, tmp_path / "nowhere").seconds is None


def test_lines_that_are_damaged_or_gone_do_not_stop_a_table(tmp_path: Path) -> None:
    config = RunConfig(scenario="rotated-mnist", method="stl", size="256")
    folder = RunFolder(write_record(tmp_path, config, 90.0))
    cell = next(cell for cell in load_suite("table1").cells() if cell.config() == config)
    (folder.path / "metrics.jsonl").write_text('{"task": 7}\n{}\n')
    assert folder.quickest() is None
    assert fill_best(cell, tmp_path).seconds == 2.25
    (folder.path / "metrics.jsonl").unlink()
    assert fill_best(cell, tmp_path).seconds == 2.25
