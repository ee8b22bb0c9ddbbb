"""What is counted as agreeing with the paper, and what is not."""

from __future__ import annotations

from pathlib import Path

from crwn.experiments.suite import SUITES, Cell, fill_best, load_suite
from crwn.report.agreement import agreement, agreement_table, agreement_text
from crwn.report.suite_tables import suite_text
from invented_records import write_record


def cell_of(label: str, column: str, table: str = "table1") -> Cell:
    return next(c for c in load_suite(table).cells() if (c.row.label, c.column.key) == (label, column))


def test_the_paper_has_59_cells_each_counted_once(tmp_path: Path) -> None:
    suites = [load_suite(name) for name in SUITES]
    filled = {suite.title: [fill_best(cell, tmp_path) for cell in suite.cells()] for suite in suites}
    assert [len(agreement(cells).cells) for cells in filled.values()] == [26, 13, 18, 2]
    assert agreement_table(filled).rows[-1] == ["all", "59", "0", "0", "0", "0"]


def test_above_by_more_than_half_a_point_is_a_difference_too(tmp_path: Path) -> None:
    for label, off in (("STL, FC256", 0.4), ("PSP, FC256", 0.6), ("SupSup, FC256", -0.5), ("BatchE, FC256", -0.6)):
        cell = cell_of(label, "rotated")
        assert cell.published is not None
        for seed in range(3 if label.startswith("STL") else 1):
            write_record(tmp_path, cell.config(seed=seed), cell.published.accuracy + off)
    filled = [fill_best(cell, tmp_path) for cell in load_suite("table1").cells()]
    found = agreement(filled)
    assert (len(found.full), len(found.close), len(found.with_seeds)) == (4, 2, 1)
    text = agreement_text(filled)
    assert text.startswith("Of the paper's 26 cells 4 were run at full length; 2 of these are within 0.5 points")
    assert text.endswith("Further away: PSP, FC256 on R-MNIST (+0.60), BatchE, FC256 on R-MNIST (-0.60).")


def test_short_runs_and_rows_of_ours_do_not_count(tmp_path: Path) -> None:
    write_record(tmp_path, cell_of("FlyNet, 10d", "rotated").config(tasks=20), 94.18)
    write_record(tmp_path, cell_of("MTL, FC256", "rotated").config(), 97.18)
    write_record(tmp_path, cell_of("NeuroModNet-Hadamard, FC4096", "rotated").config(), 95.49)
    assert agreement([fill_best(cell, tmp_path) for cell in load_suite("table1").cells()]).full == []


def test_runs_in_bfloat16_fill_a_cell_that_has_no_whole_run_in_float32_and_are_marked(tmp_path: Path) -> None:
    cell = cell_of("NeuroModNet, FC4096", "permuted")
    config = cell.config()
    low = config.model_copy(update={"settings": {"precision": "bf16"}})
    suite = load_suite("table1")

    def row() -> str:
        text = suite_text(suite, [fill_best(one, tmp_path) for one in suite.cells()])
        return next(line for line in text.splitlines() if line.startswith("| NeuroModNet, FC4096 "))

    write_record(tmp_path, cell.config(tasks=8), 90.0)
    assert "90.00 (8 tasks, 1 seed)" in row()
    write_record(tmp_path, low, 95.5)
    assert "95.50 (1 seed, bf16)" in row()
    found = agreement([fill_best(one, tmp_path) for one in suite.cells()])
    assert (len(found.full), len(found.in_bf16)) == (1, 1)
    write_record(tmp_path, config, 95.6)
    assert "95.60 (1 seed)" in row()
    found = agreement([fill_best(one, tmp_path) for one in suite.cells()])
    assert (len(found.full), len(found.in_bf16)) == (1, 0)


def test_seconds_stand_beside_the_papers_only_at_equal_length(tmp_path: Path) -> None:
    suite = load_suite("table2")
    cell = cell_of("SupSup", "cifar100", "table2")
    for config, expected in (
        (cell.config().model_copy(update={"epochs": 25}), ["2.2 (25 epochs)", "–"]),
        (cell.config(), ["2.2", "249"]),
    ):
        write_record(tmp_path, config, 80.0)
        text = suite_text(suite, [fill_best(one, tmp_path) for one in suite.cells()])
        costs = text[text.index("What a task costs, Split-CIFAR100") :]
        row = next(line for line in costs.splitlines() if line.startswith("| SupSup"))
        assert [value.strip() for value in row.split("|")][9:11] == expected
