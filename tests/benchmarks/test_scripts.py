"""Benchmarks that are run by hand still run: each on its smallest sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crwn.experiments import RunConfig
from crwn.experiments import run as run_experiment
from image_folders import write_class_folders

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *arguments], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments", "key"),
    [
        ("bank_kills.py", ["--kills", "4"], "acknowledged"),
        ("bank_million.py", ["--tasks", "300"], "get_p99_ms"),
        ("bank_profile.py", ["--tasks", "600"], "after"),
        ("start.py", ["--rows", "40", "--columns", "3", "--runs", "1"], "learn_seconds"),
        ("damages.py", ["--damages", "6"], "outcomes"),
        ("serve_load.py", ["--size", "32", "--tasks", "4", "--connections", "1", "--seconds", "0.5"], "connections"),
        ("psp_forgetting.py", ["--data", "digits", "--tasks", "2", "--batches", "2", "--json"], "ways"),
        ("convolution_ways.py", ["--rounds", "1", "--json"], "milliseconds"),
        ("batch_preparation.py", ["--rounds", "2"], "milliseconds"),
    ],
)
def test_it_prints_its_record(script: str, arguments: list[str], key: str, tmp_path: Path) -> None:
    record = json.loads(run(script, *arguments, folder=tmp_path))
    assert record[key]
    assert script in record["command"]
    assert "torch" in record["versions"]


@pytest.mark.slow
def test_curves_keep_the_parts_that_are_there(tmp_path: Path) -> None:
    options = ("--scenario", "rotated-digits", "--json", str(tmp_path / "record.json"), "--parts")
    run("exact_curves.py", "--batches-only", *options, "20d", folder=tmp_path)
    (kept,) = json.loads((tmp_path / "record.json").read_text())["parts"].values()
    run("exact_curves.py", *options, "10d", "20d", folder=tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["parts"]["20d"] == kept
    assert "exact" not in kept
    found = record["parts"]["10d"]
    assert found["newton"][0] == found["exact"][0]
    seconds = [point["seconds"] for point in found["batches"]]
    assert seconds == sorted(seconds)


@pytest.mark.slow
def test_contexts_are_stored_in_every_dtype(tmp_path: Path) -> None:
    config = RunConfig(scenario="rotated-digits", method="neuromodnet", size="64", tasks=2, batches=60, threads=1)
    learned = run_experiment(config, tmp_path / "run")
    run("store_accuracy.py", str(tmp_path / "run"), "--json", str(tmp_path / "record.json"), folder=tmp_path)
    (found,) = json.loads((tmp_path / "record.json").read_text())["runs"]
    assert found["tasks"] == 2
    assert found["float32"]["accuracy"] == pytest.approx(learned.average_accuracy, abs=0.001)
    assert found["float16"]["accuracy"] == pytest.approx(learned.average_accuracy, abs=2)
    assert found["int8"]["bytes"] < found["float16"]["bytes"] < found["float32"]["bytes"]


@pytest.mark.slow
def test_warm_starts_are_compared_and_drawn(tmp_path: Path) -> None:
    options = ["--scenario", "rotated-digits", "--tasks", "3", "--width", "16", "--batches", "20", "--goals", "10"]
    run("warm_start.py", *options, "--out", "records", "--pictures", "pictures", folder=tmp_path)
    assert json.loads((tmp_path / "records" / "warm_start.json").read_text())["final_accuracy"]
    assert (tmp_path / "pictures" / "warm_start.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_order_of_tasks_is_measured(tmp_path: Path) -> None:
    for part in ("train", "test"):
        counts = {f"{part}/{name}": 12 for name in "abcdef"}
        write_class_folders(tmp_path / "data", counts, size=(12, 12), mode="RGB", under="")
    scenario = tmp_path / "six.toml"
    scenario.write_text('kind = "split"\ndata = "data"\nclasses_per_task = 2\n')
    arguments = ("--scenario", str(scenario), "--tasks", "3", "--method", "flynet")
    run("shared_head_order.py", *arguments, "--json", str(tmp_path / "record.json"), folder=tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["classes"] == 6
    assert len(set(record["class_right_percent"])) == 1
    assert record["answers_changed_percent"] == [0.0, 0.0, 0.0]
    assert 0 <= record["calibration_error"] <= 1


@pytest.mark.slow
def test_products_of_both_libraries_are_measured(tmp_path: Path) -> None:
    run("products.py", "--rounds", "1", "--json", "record.json", folder=tmp_path)
    found = json.loads((tmp_path / "record.json").read_text())["products"]
    assert all(one["gflops_blas"] > 0 and one["gflops_product"] > 0 for one in found)
    assert {tuple(one["size"]) for one in found} >= {(128, 784, 256), (512, 4096, 4096)}


@pytest.mark.slow
def test_ways_to_wait_for_threads_are_measured(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--seconds", "0.2", "--busy", "1", "--json", "record.json"]
    run("waiting_threads.py", *options, folder=tmp_path)
    found = json.loads((tmp_path / "record.json").read_text())["milliseconds_a_step"]
    assert all(found[machine][way] > 0 for machine in ("quiet", "busy") for way in ("usual", "crwn"))
