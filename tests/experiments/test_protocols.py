"""Accuracy without the task, for methods of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, make_config, run
from crwn.experiments.config import Protocol
from crwn.methods import METHODS, find_method
from crwn.scenarios import make_scenario
from crwn.scenarios.all_classes import all_classes
from image_folders import write_class_folders

SHORT = {"scenario": "rotated-digits", "tasks": 2, "batches": 60, "threads": 1}


@pytest.mark.parametrize(("method", "size"), [("neuromodnet", "256"), ("ranpac", "300"), ("finetune", "64")])
def test_class_and_domain_accuracy(method: str, size: str, tmp_path: Path) -> None:
    found = {}
    for protocol in ("class", "domain"):
        config = RunConfig(method=method, size=size, protocol=protocol, **SHORT)
        result = run(config, tmp_path / protocol)
        assert result.protocol == protocol
        assert result.without_task is not None
        found[protocol] = result.without_task
    assert found["class"]["accuracy"] <= found["domain"]["accuracy"] + 1
    assert ("task_accuracy" in found["class"]) is not find_method(method).one_head
    if method != "finetune":  # it answers with classes of the last task alone
        assert found["class"]["accuracy"] > 70
    else:
        assert found["class"]["accuracy"] <= 60


@pytest.mark.parametrize("protocol", ["class", "domain"])
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"backbone", "neuromodnet", "ranpac", "finetune"}))
def test_every_other_method_has_an_accuracy_without_the_task(method: str, protocol: Protocol, tmp_path: Path) -> None:
    size = {"flynet": "10d", "supsup": "128"}.get(method, "32")
    config = RunConfig(method=method, size=size, protocol=protocol, **SHORT | {"batches": 20})
    result = run(config, tmp_path / "run")
    assert result.without_task is not None
    # For `class` the inferred task has to be right too; for `domain` another task's context may answer better.
    most = result.average_accuracy if protocol == "class" else 100
    assert 0 <= result.without_task["accuracy"] <= most + 1e-9
    assert ("task_accuracy" in result.without_task) is not find_method(method).one_head


@pytest.mark.parametrize("protocol", ["class", "domain"])
def test_a_backbone_has_an_accuracy_without_the_task(protocol: Protocol, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="crwn[vision] is not installed")
    data = tmp_path / "data"
    for part in ("train", "test"):
        write_class_folders(data, {f"{part}/{name}": 8 for name in "abcd"}, size=(16, 16), mode="RGB", under="")
    scenario = tmp_path / "four.toml"
    scenario.write_text('kind = "split"\ndata = "data"\nclasses_per_task = 2\n')
    settings = {"image_size": "32", "head_units": "50"}
    config = RunConfig(scenario=str(scenario), method="backbone", protocol=protocol, settings=settings, threads=1)
    result = run(config, tmp_path / "run")
    assert result.without_task is not None
    assert {"accuracy", "task_accuracy"} <= result.without_task.keys()


def test_the_protocol_names_the_folder_and_others_are_refused() -> None:
    config = make_config(scenario="rotated-digits", method="stl", protocol="class")
    assert config.label.endswith("protocol=class")
    assert "--protocol class" in config.command
    assert "protocol" not in make_config(scenario="rotated-digits", method="stl").identity()
    with pytest.raises(ConfigError, match="protocol"):
        make_config(scenario="rotated-digits", method="stl", protocol="guess")


def test_all_classes_move_labels_and_nothing_else() -> None:
    scenario = make_scenario("rotated-digits", tasks=2)
    whole = all_classes(scenario)
    assert whole.num_classes == 20
    assert bool((whole[1].test.labels(slice(None)) == scenario[1].test.labels(slice(None)) + 10).all())
    assert bool((whole[1].test.inputs(slice(0, 5)) == scenario[1].test.inputs(slice(0, 5))).all())
