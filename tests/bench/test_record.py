"""The JSON that machines read: names, ratios, and what they were made from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crwn.bench import measure_all
from crwn.bench.record import heading, recorded
from crwn.cli import app
from crwn.cli.bench import _table
from crwn.errors import ConfigError
from crwn.experiments.environment import commit, instruction_set
from crwn.training.precision import has_bf16

PROMISED = {
    "training": [
        "fc256_vs_paper_style",
        "fc1024_vs_paper_style",
        "fc4096_hadamard_vs_paper_style",
        "hadamard_vs_dense_1024",
        "hadamard_vs_dense_4096",
        "hadamard_vs_dense_16384",
        "roofline_fc1024",
        "roofline_fc4096",
    ],
    "convolution": ["vs_dense", "vs_supsup", "vs_batche", "step_over_augmentation"],
    "mixed": ["vs_plain", "vs_loop"],
    "scaling": ["tasks", "width_gaussian", "width_hadamard", "rows", "resident"],
    "images": ["flynet_vs_neuromodnet", "flynet_vs_neuromodnet_stl", "flynet_to_supsup", "encoder_roofline"],
    "memory": ["bytes_fc256_float32", "frozen_fc4096", "training_gaussian_fc4096"],
    "adapters": ["accuracy_context_1", "accuracy_context_4", "accuracy_ridge", "accuracy_probe"],
    "adapter_speeds": ["blocks", "mixed_vs_plain_3", "mixed_vs_plain_10"],
}
if has_bf16():
    PROMISED["training"] += ["fc256_bf16_vs_paper_style", "fc1024_bf16_vs_paper_style"]
    PROMISED["images"] += ["bf16_step", "bf16_step_fc"]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quick records of every benchmark, as the command writes them."""
    folder = tmp_path_factory.mktemp("bench")
    for name in PROMISED:
        done = CliRunner().invoke(app, ["bench", name, "--quick", "--json", "--out", str(folder / f"{name}.json")])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout) == json.loads((folder / f"{name}.json").read_text())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_figures_are_there(records: Path, name: str) -> None:
    record: dict[str, Any] = json.loads((records / f"{name}.json").read_text())
    for figure in PROMISED[name]:
        value = record[name][figure]
        detail = record["details"][f"{name}.{figure}"]
        assert math.isfinite(value)
        assert name == "scaling" or value > 0
        assert detail["value"] == value
        assert detail["spread"][0] <= value <= detail["spread"][1]
    assert record["seed"] == 0
    assert record["quick"] is True
    assert "torch" in record["versions"]
    assert record["commit"] == commit()
    assert record["machine"]["threads"] >= 1
    assert record["command"]


@pytest.mark.slow
def test_peft_is_measured_or_said_to_be_missing(records: Path) -> None:
    record = json.loads((records / "mixed.json").read_text())
    assert record["mixed"].get("vs_peft", 0) > 0 or any("PEFT" in note for note in record["notes"])


def test_a_record_names_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """None in an installed package, whose version says as much; the checkout's commit, by the one function, here."""
    assert heading(quick=True, seed=0)["commit"] == commit()
    monkeypatch.setattr("crwn.bench.record.commit", lambda: "0123456789ab+")
    assert heading(quick=True, seed=0)["commit"] == "0123456789ab+"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match='unknown benchmark "speed": choose from training, convolution, mixed'):
        measure_all(["speed"])


def test_records_of_several_machines_stand_beside_a_measurement(tmp_path: Path) -> None:
    """`crwn bench` prints the instruction set and earlier records; quick ones and other benchmarks are left out."""
    name = "memory.frozen_fc4096"
    detail: dict[str, Any] = {"value": 1.0, "spread": [0.5, 1.5], "what": "bytes"}
    here = heading(quick=False, seed=0) | {"details": {name: detail}, "notes": []}
    assert recorded(tmp_path, "memory") == []
    for stem, value, quick in (("memory", 2.0, False), ("memory-other", 3.0, False), ("memory-quick", 9.0, True)):
        details = {name: detail | {"value": value}}
        (tmp_path / f"{stem}.json").write_text(json.dumps(here | {"details": details, "quick": quick}))
    (tmp_path / "memory_of_ray.json").write_text(json.dumps({"cases": []}))
    assert [one["details"][name]["value"] for one in recorded(tmp_path, "memory")] == [2.0, 3.0]
    text = _table(here, tmp_path)
    assert next(line for line in text.splitlines() if name in line).count("2, 3") == 1
    assert f"here: {here['machine']['processor']}, {instruction_set()}, " in text
