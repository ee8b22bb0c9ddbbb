"""Runs: numbers, folders, and going on after a death at any write or inside a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, run
from crwn.experiments.config import USUAL_TASKS
from crwn.experiments.run import OutOfTime
from small_runs import CONFIGS, SMALL


def test_result_is_written_and_read_again(tmp_path: Path) -> None:
    first = run(CONFIGS["neuromodnet"], tmp_path / "run")
    assert first.average_accuracy == pytest.approx(sum(first.accuracy) / 5)
    assert first.forgetting == 0.0
    assert first.accuracy == first.accuracy_after
    assert first.params_per_task == 64 + 2 * 64 + 3
    written = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    assert run(CONFIGS["neuromodnet"], tmp_path / "run") == first
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == written

    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(record["versions"]) == {"python", "crwn", "torch", "numpy"}
    assert {"processor", "cores", "threads"} <= set(record["machine"])
    assert record["chosen"]["stack_size"] == 16
    assert record["command"].startswith("crwn run rotated-digits neuromodnet --size 64 --tasks 5 --batches 8")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["task"] for line in lines] == [0, 1, 2, 3, 4]
    assert all(line["training_seconds"] > 0 and line["evaluation_seconds"] > 0 for line in lines)
    assert first.peak_memory_bytes > 10**7


def test_a_scenario_with_fewer_tasks_than_usual_goes_on_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An imported part of a data set gives fewer tasks than the paper has."""
    monkeypatch.setitem(USUAL_TASKS, "rotated-digits", 40)
    config = RunConfig(scenario="rotated-digits", method="finetune", size="8", batches=1, threads=1)
    with pytest.raises(OutOfTime):
        run(config, tmp_path / "run", deadline=0.0)
    first = run(config, tmp_path / "run")
    assert len(first.accuracy) == 36
    assert run(config, tmp_path / "run") == first
    with pytest.raises(ConfigError, match="holds another run"):
        run(config.model_copy(update={"tasks": 5}), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": "rotated-letters"}, "rotated-digits"),
        ({"method": "neuromodnett"}, "neuromodnet, flynet"),
        ({"size": "huge"}, "huge"),
        ({"settings": {"colour": "red"}}, "rate"),
        ({"settings": {"batches": "3"}}, "use --batches 3"),
        ({"tasks": 99}, "99"),
    ],
)
def test_unknown_names_leave_no_folder(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        run(CONFIGS["neuromodnet"].model_copy(update=change), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 100_000}, "100000 threads are more than any machine has use for"),
        ({"settings": {"patience": "1"}}, "--set patience=1: runs have no validation rows"),
        ({"settings": {"rate": "inf"}}, "rate"),
        ({"method": "ewc", "settings": {"strength": "nan"}}, "strength"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run(RunConfig(**({"method": "finetune", "size": "8", **SMALL} | changes)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
