"""The measures of a run: forgetting, transfer, the accuracy matrix, inferred tasks, sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, RunResult, run
from small_runs import SMALL


def test_what_forgets_and_what_does_not(undisturbed: dict[str, RunResult]) -> None:
    forgot = {name: result.forgetting for name, result in undisturbed.items()}
    for name in ("neuromodnet", "pretrained", "flynet", "supsup", "batche", "stl"):
        assert forgot[name] == 0.0, name
    assert forgot["mtl"] is None
    assert all(forgot[name] is not None for name in ("finetune", "psp", "ewc", "replay"))


def test_matrix_and_transfer(undisturbed: dict[str, RunResult]) -> None:
    result = undisturbed["finetune"]
    assert result.matrix is not None
    assert [len(row) for row in result.matrix] == [1, 2, 3, 4, 5]
    assert result.matrix[-1] == result.accuracy
    assert [row[-1] for row in result.matrix] == result.accuracy_after
    assert result.forward_transfer is not None
    assert result.forward_transfer > 5  # neighbouring rotations help each other
    assert result.backward_transfer == -(result.forgetting or 0.0)


def test_class_incremental(tmp_path: Path) -> None:
    config = RunConfig(
        scenario="permuted-digits", method="neuromodnet", size="256", tasks=3, class_incremental=16, threads=1
    )
    result = run(config, tmp_path / "run")
    assert result.class_incremental is not None
    assert result.class_incremental["task_accuracy"] > 90
    assert 80 < result.class_incremental["accuracy"] <= result.average_accuracy


def test_measures_without_a_meaning_are_not_made(tmp_path: Path) -> None:
    assert run(RunConfig(method="mtl", size="8", **SMALL | {"matrix": True}), tmp_path / "mtl").matrix is None
    grouped = SMALL | {"class_incremental": 4}
    assert run(RunConfig(method="psp", size="8", **grouped), tmp_path / "psp").class_incremental is not None


@pytest.mark.parametrize("method", ["mtl", "finetune", "ewc", "replay"])
def test_inferring_a_task_is_refused_where_predictions_do_not_depend_on_it(method: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--class-incremental 4: {method} predicts the same for every task"):
        run(RunConfig(method=method, size="8", **SMALL | {"class_incremental": 4}), tmp_path / method)
    assert not (tmp_path / method).exists()


@pytest.mark.parametrize("method", ["replay", "finetune", "ewc", "stl"])
def test_bytes_per_task_are_those_on_disk(method: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    result = run(RunConfig(method=method, size="8", **SMALL), tmp_path / "run")
    tensors = [value for path in (tmp_path / "run" / "state").iterdir() for value in load_file(path).values()]
    assert sum(value.nbytes for value in tensors) == pytest.approx(result.bytes_per_task * 5, abs=5)
