"""Pretrained mode beside random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crwn.experiments.config import RunConfig
from crwn.experiments.suite import fill_best, load_suite
from crwn.report.pretrained import comparison, pairs
from invented_records import write_record


def write(base: Path, accuracy: list[float], **settings: str) -> None:
    config = RunConfig(
        scenario="rotated-mnist", method="neuromodnet", size="1024", tasks=len(accuracy), settings=settings
    )
    path = write_record(base, config, 0.0) / "result.json"
    result = json.loads(path.read_text())
    mean = sum(accuracy) / len(accuracy)
    path.write_text(json.dumps(result | {"accuracy": accuracy, "accuracy_after": accuracy, "average_accuracy": mean}))


def test_gains_on_the_first_two_tasks_the_others_and_on_average(tmp_path: Path) -> None:
    write(tmp_path, [96.0, 95.0, 90.0, 91.0], pretrained="true")
    write(tmp_path, [93.0, 93.0, 93.0, 90.0])
    filled = [fill_best(cell, tmp_path) for cell in load_suite("table4").cells()]
    (pair,) = pairs(filled)
    assert pair.gains == pytest.approx([3.0, 2.0, -3.0, 1.0])
    text = comparison(filled)
    assert "FC1024, 4 tasks: +2.50 points on the first two tasks, -1.00 on the others (ahead on 1 of 2)" in text
    assert text.endswith("+0.75 on average.")


def test_only_common_tasks_are_compared(tmp_path: Path) -> None:
    write(tmp_path, [96.0, 95.0], pretrained="true")
    write(tmp_path, [93.0, 93.0, 10.0])
    text = comparison([fill_best(cell, tmp_path) for cell in load_suite("table4").cells()])
    assert "FC1024, 2 tasks: +2.50 points on the first two tasks, +2.50 on average." in text


def test_nothing_to_compare(tmp_path: Path) -> None:
    write(tmp_path, [96.0, 95.0], pretrained="true")
    assert comparison([fill_best(cell, tmp_path) for cell in load_suite("table4").cells()]) == ""
