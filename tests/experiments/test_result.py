"""Results of several seeds as one object, and what a repetition must reproduce."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.experiments import RunConfig, RunResult, run
from crwn.experiments.result import summary


def test_runs_in_closed_form_have_no_length(tmp_path: Path, undisturbed: dict[str, RunResult]) -> None:
    config = RunConfig(scenario="rotated-digits", method="flynet", tasks=2, settings={"training": "exact"})
    found = run(config, tmp_path)
    assert found.closed_form
    assert found.length == "closed form"
    other = undisturbed["finetune"]
    assert not other.closed_form
    assert other.length == f"{other.budget['batches']:,} batches"


def test_seeds_are_averaged(undisturbed: dict[str, RunResult]) -> None:
    one = undisturbed["finetune"]
    other = one.model_copy(
        update={
            "seed": 7,
            "average_accuracy": one.average_accuracy + 4,
            "forgetting": (one.forgetting or 0.0) + 2,
            "seconds_per_task": one.seconds_per_task + 1,
            "forward_transfer": None,
        }
    )
    found = summary([one, other], [Path("runs/seed-0"), Path("runs/seed-7")])
    assert found["seeds"] == [0, 7]
    assert found["tasks"] == 5
    assert found["average_accuracy"] == pytest.approx(one.average_accuracy + 2)
    assert found["accuracy_std"] == pytest.approx(8**0.5)
    assert found["forgetting"] == pytest.approx((one.forgetting or 0.0) + 1)
    assert found["seconds_per_task"] == pytest.approx(one.seconds_per_task + 0.5)
    assert found["forward_transfer"] == pytest.approx(one.forward_transfer)
    assert found["run_dirs"] == ["runs/seed-0", "runs/seed-7"]
    assert "class_incremental" not in found


def test_what_a_method_does_not_have_is_none_or_left_out(undisturbed: dict[str, RunResult]) -> None:
    joint = summary([undisturbed["mtl"]], [Path("runs")])
    assert joint["forgetting"] is None
    assert joint["accuracy_std"] is None, "one seed has no deviation"
    assert "backward_transfer" not in joint
    inferred = undisturbed["psp"].model_copy(update={"class_incremental": {"accuracy": 40.0, "task_accuracy": 50.0}})
    better = inferred.model_copy(update={"class_incremental": {"accuracy": 60.0, "task_accuracy": 100.0}})
    found = summary([inferred, better], [Path("a"), Path("b")])["class_incremental"]
    assert found == {"accuracy": 50.0, "task_accuracy": 75.0}


def test_times_and_memory_are_not_reproduced(undisturbed: dict[str, RunResult]) -> None:
    result = undisturbed["stl"]
    again = result.model_copy(update={"seconds_per_task": 99.0, "peak_memory_bytes": 1, "finished": "later"})
    assert again.deterministic() == result.deterministic()
    assert result.model_copy(update={"accuracy": [1.0] * 5}).deterministic() != result.deterministic()
