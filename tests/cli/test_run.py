"""`crwn run` and `crwn reproduce` as people and machines meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crwn.experiments.folder import RunFolder
from crwn.experiments.result import RunResult
from crwn.experiments.suite import load_suite

KEYS = [
    *("scenario", "method", "size", "seeds", "tasks", "average_accuracy", "accuracy_std", "forgetting"),
    *("params_per_task", "params_per_task_amortised", "bytes_per_task", "seconds_per_task", "run_dirs"),
]


def crwn(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from crwn.cli import main; main()", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_json_contract(tmp_path: Path) -> None:
    words = ("run", "rotated-digits", "batche", "--size", "32", "--tasks", "3", "--batches", "10", "--seeds", "0,1")
    done = crwn(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert list(whole) == KEYS
    assert whole["seeds"] == [0, 1]
    assert whole["tasks"] == 3
    assert whole["size"] == "32"
    assert whole["forgetting"] == 0.0
    assert 0 < whole["average_accuracy"] <= 100
    folders = [f"runs/rotated-digits/batche-32-tasks=3-batches=10/seed-{seed}" for seed in (0, 1)]
    assert whole["run_dirs"] == folders
    results = [RunFolder(tmp_path / folder).result() for folder in folders]
    means = [result.average_accuracy for result in results if result is not None]
    assert whole["average_accuracy"] == pytest.approx(sum(means) / 2)
    assert whole["accuracy_std"] == pytest.approx(abs(means[0] - means[1]) / 2**0.5)

    again = crwn(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "task 1 of 3" in done.stderr
    assert "task 1 of 3" not in again.stderr, "nothing is learned again"
    assert f"{whole['average_accuracy']:.2f}%" in again.stdout
    assert "rotate-020" in again.stdout


def test_joint_forgetting_is_null(tmp_path: Path) -> None:
    words = ("run", "rotated-digits", "mtl", "--size", "16", "--tasks", "2", "--batches", "5", "--json")
    done = crwn(*words, "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["forgetting"] is None
    assert json.loads(done.stdout)["run_dirs"] == ["here/seed-0"]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("run", "rotated-letters", "stl"), 1, "rotated-digits"),
        (("run", "rotated-digits", "nothing"), 1, "neuromodnet"),
        (("run", "rotated-digits", "neuromodnet", "--set", "colour=red"), 1, "weights"),
        (("run", "rotated-digits", "neuromodnet", "--size", "big"), 1, "big"),
        (("run", "rotated-digits", "stl", "--seeds", "x"), 1, "0,1,2"),
        (("run", "rotated-digits", "stl", "--engine", "cloud"), 1, "local"),
        (("reproduce", "table9"), 1, "table1"),
        (("run", "rotated-digits", "stl", "--tasks", "many"), 2, "--tasks"),
        (("run", "rotated-digits"), 2, "'METHOD'"),
    ],
)
def test_wrong_words(words: tuple[str, ...], code: int, named: str, tmp_path: Path) -> None:
    done = crwn(*words, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert named in done.stderr
    if code == 1:
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_second_reproduce_does_nothing_and_loads_no_torch(tmp_path: Path) -> None:
    suite = load_suite("table4")
    for cell in suite.cells():
        config = cell.config(tasks=2)
        files = RunFolder(config.folder(tmp_path / "runs"))
        files.begin({"run": config.identity(), "chosen": {"threads": 1}})
        files.finish(_result(config.scenario, config.method, str(config.size), config.settings))
    code = (
        "import sys, crwn.cli; sys.argv = ['crwn', 'reproduce', 'table4', '--tasks', '2', '--seeds', '0'];"
        "crwn.cli.app(standalone_mode=False); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    assert f"{len(list(suite.cells()))} of {len(list(suite.cells()))} runs are done" in done.stderr
    assert "left" not in done.stderr
    assert "94.05 ± 0.35" in done.stdout
    assert "-0.49" in done.stdout
    for ending in ("md", "csv", "tex"):
        assert (tmp_path / "runs" / "tables" / f"table4-tasks=2.{ending}").is_file()


def _result(scenario: str, method: str, size: str, settings: dict[str, str]) -> RunResult:
    return RunResult(
        scenario=scenario,
        method=method,
        size=size,
        seed=0,
        settings=settings,
        budget={"batches": 1000},
        tasks=["a", "b"],
        accuracy_after=[95.0, 95.0],
        accuracy=[95.0, 95.0],
        average_accuracy=95.0,
        forgetting=0.0,
        backward_transfer=0.0,
        params_per_task=8979,
        params_per_task_amortised=8979,
        bytes_per_task=35916,
        setup_seconds=0,
        training_seconds=1,
        evaluation_seconds=1,
        seconds_per_task=2,
        peak_memory_bytes=1,
        finished="2026-01-01T00:00:00+00:00",
    )


def test_verify_repeats_a_record(tmp_path: Path) -> None:
    words = ("run", "rotated-digits", "neuromodnet", "--size", "16", "--tasks", "2", "--batches", "5", "--out", "r")
    made = crwn(*words, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    found = crwn("run", "--verify", "r/seed-0", cwd=tmp_path)
    assert found.stdout.startswith("equal: "), found.stderr
    first = crwn("run", "--verify", "r/seed-0", "--tasks", "1", "--json", cwd=tmp_path)
    assert json.loads(first.stdout)["outcome"] == "equal"
    both = crwn("run", "rotated-digits", "neuromodnet", "--verify", "r/seed-0", cwd=tmp_path)
    assert both.returncode == 1
    assert "leave out the scenario" in both.stderr
    assert crwn("run", "rotated-digits", cwd=tmp_path).returncode == 2
    assert crwn("run", "--verify", "r", cwd=tmp_path).returncode == 1
