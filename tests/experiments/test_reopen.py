"""A run opened again knows what it knew, and says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError, TaskError
from crwn.experiments import RunConfig, RunFolder, run
from crwn.experiments.experiment import accuracy
from crwn.experiments.reopen import relearned, reopen

SMALL = {"scenario": "rotated-digits", "size": "32", "tasks": 3, "batches": 20, "threads": 1}


@pytest.mark.parametrize("method", ["neuromodnet", "supsup", "batche", "psp", "finetune"])
def test_the_method_answers_as_it_did(method: str, tmp_path: Path) -> None:
    result = run(RunConfig(method=method, **SMALL), tmp_path)
    bench = relearned(tmp_path)
    assert [accuracy(bench.method, task, task.test) for task in bench.scenario] == result.accuracy


def test_only_the_states_that_are_asked_for_are_read(tmp_path: Path) -> None:
    result = run(RunConfig(method="supsup", **SMALL), tmp_path)
    (tmp_path / "state" / "task-002.safetensors").unlink()
    bench = relearned(tmp_path, tasks=2)
    assert [accuracy(bench.method, task, task.test) for task in bench.scenario[:2]] == result.accuracy[:2]
    with pytest.raises(TaskError):
        bench.method.logits(bench.scenario[2], bench.scenario[2].test)
    with pytest.raises(ConfigError, match=r"task-002\.safetensors is missing"):
        relearned(tmp_path)


def test_a_reopened_method_has_learned_nothing(tmp_path: Path) -> None:
    run(RunConfig(method="neuromodnet", **SMALL), tmp_path)
    bench = reopen(tmp_path)
    assert [task.name for task in bench.scenario] == RunFolder(tmp_path).record()["chosen"]["tasks"]  # type: ignore[index]
    with pytest.raises(TaskError):
        bench.method.logits(bench.scenario[0], bench.scenario[0].test)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        reopen(tmp_path)
