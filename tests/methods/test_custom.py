"""The examples of docs/custom-method.md: a method registered by an entry point, a scenario from a TOML file."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from crwn.errors import ConfigError
from crwn.methods import find_method, make_method, method_names
from crwn.scenarios import make_scenario
from crwn.training.evaluation import accuracy

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(folder: Path, entry_points: str) -> None:
    """What `pip install` leaves of a small distribution."""
    information = folder / "my_methods-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text(f"[crwn.methods]\n{entry_points}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, "biases = custom_method:Biases\nbroken = custom_method:Missing\nodd = custom_method:BiasNet")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "custom_method", raising=False)
    importlib.invalidate_caches()
    return tmp_path


def test_an_installed_method_is_found_and_learns(installed: Path) -> None:
    assert "biases" in method_names()
    scenario = make_scenario("rotated-digits", tasks=2)
    method, _ = make_method("biases", scenario, size="512", settings={"gain": "2"})
    assert method.counts(2).params_per_task == 512 + 10
    method.learn(list(scenario), method.recipe(batches=100))
    frozen = method.logits(scenario[0], scenario[0].test)
    for task in scenario:
        assert accuracy(method.logits(task, task.test), task.test.labels(slice(None))) > 0.6
    again, _ = make_method("biases", scenario, size="512", settings={"gain": "2"})
    again.restore({task.name: method.task_state(task) for task in scenario}, method.shared_state())
    assert torch.equal(again.logits(scenario[0], scenario[0].test), frozen)
    with pytest.raises(ConfigError, match="gain=much"):
        make_method("biases", scenario, settings={"gain": "much"})


def test_a_method_that_cannot_be_loaded_is_an_error(installed: Path) -> None:
    with pytest.raises(ConfigError, match=r'"broken" \(custom_method:Missing\) cannot be loaded'):
        find_method("broken")
    with pytest.raises(ConfigError, match=r'"odd" \(custom_method:BiasNet\) is not a subclass'):
        find_method("odd")


def test_the_example_is_short() -> None:
    assert len((EXAMPLES / "custom_method.py").read_text().splitlines()) < 70


@pytest.mark.slow
def test_custom_method_and_custom_scenario_run_from_the_command_line(installed: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(installed), str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    scenario = EXAMPLES / "custom_scenario.toml"
    options = ["--tasks", "2", "--batches", "80", "--size", "512", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from crwn.cli import main; main()", "run", str(scenario), "biases", *options],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["scenario"], result["method"], result["tasks"]) == ("custom_scenario", "biases", 2)
    assert result["average_accuracy"] > 40
    assert result["forgetting"] == 0


def test_custom_scenario() -> None:
    scenario = make_scenario(EXAMPLES / "custom_scenario.toml")
    assert [task.factors["angle"] for task in scenario] == [0, 60, 120, 180, 240, 300]
    assert scenario.budget == {"batches": 100}
