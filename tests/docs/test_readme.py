"""The README's table says what the records say, and the README stays short."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def percent(accuracy: str, deviation: str) -> str:
    if not accuracy:
        return "–"
    return f"{float(accuracy):.2f}" + (f" ± {float(deviation):.2f}" if deviation else "")


def test_it_is_at_most_120_lines() -> None:
    assert len(README.splitlines()) <= 120


def test_its_results_are_those_of_the_records() -> None:
    with (ROOT / "results" / "tables" / "table1.csv").open(encoding="utf-8") as file:
        cells = {cell["row"]: cell for cell in csv.DictReader(file) if cell["scenario"] == "rotated-mnist"}
    section = README.split("## Results")[1].split("## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(lines) == 13
    for label, params, ours, paper in lines:
        cell = cells[label.partition(" (")[0]]
        assert cell["protocol"] == "the paper's"
        assert params == f"{int(cell['params_per_task']):,}"
        assert ours == percent(cell["accuracy"], cell["accuracy_std"])
        assert paper == percent(cell["paper_accuracy"], cell["paper_deviation"])
