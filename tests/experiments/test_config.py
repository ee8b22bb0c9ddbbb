"""A run's config: its folder, its identity, and what the command line may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments.config import USUAL_BUDGET, USUAL_TASKS, RunConfig, make_config, parse_seeds, parse_settings
from crwn.scenarios import make_scenario


def test_folder_says_what_is_not_as_usual() -> None:
    usual = RunConfig(scenario="rotated-mnist", method="supsup", size="256", tasks=36, batches=1000, seed=2)
    assert usual.folder(Path("runs")) == Path("runs/rotated-mnist/supsup-256/seed-2")
    other = usual.model_copy(update={"tasks": 4, "settings": {"rate": "1e-3", "weird": "a/../b"}, "matrix": True})
    assert other.label == "supsup-256-tasks=4-rate=1e-3-weird=a_.._b-matrix"


def test_saying_the_usual_is_the_same_run() -> None:
    silent = RunConfig(scenario="rotated-mnist", method="stl", size="256")
    said = RunConfig(scenario="rotated-mnist", method="stl", size="256", tasks=36, batches=1000, threads=2)
    assert silent.identity() == said.identity()
    assert silent.label == said.label


@pytest.mark.parametrize("name", ["rotated-digits", "permuted-digits"])
def test_usual_numbers_are_those_of_the_scenarios(name: str) -> None:
    scenario = make_scenario(name)
    assert len(scenario) == USUAL_TASKS[name]
    assert dict(scenario.budget) == USUAL_BUDGET[name]


def test_command_repeats_the_run() -> None:
    config = RunConfig(
        scenario="rotated-mnist", method="neuromodnet", size="4096", seed=3, settings={"weights": "hadamard"}, tasks=8
    )
    assert config.command == "crwn run rotated-mnist neuromodnet --size 4096 --tasks 8 --seeds 3 --set weights=hadamard"


@pytest.mark.parametrize("text", ["", "a", "1,1", "-1", "0,,1", "1.5"])
def test_wrong_seeds(text: str) -> None:
    with pytest.raises(ConfigError, match="whole numbers"):
        parse_seeds(text)


@pytest.mark.parametrize("items", [["rate"], ["=3"], ["rate="], ["rate=1", "rate=2"]])
def test_wrong_settings(items: list[str]) -> None:
    with pytest.raises(ConfigError, match="--set"):
        parse_settings(items)


def test_both_lengths() -> None:
    with pytest.raises(ConfigError, match=r"both batches \(5\) and epochs \(2\)"):
        make_config(scenario="rotated-mnist", method="stl", batches=5, epochs=2)


def test_unknown_engine_names_the_choices() -> None:
    with pytest.raises(ConfigError, match="'local', 'processes' or 'ray'"):
        make_config(scenario="rotated-mnist", method="stl", engine="cloud")


def test_an_address_without_ray_is_refused() -> None:
    with pytest.raises(ConfigError, match="address host:6379 is that of a Ray cluster, but the engine is processes"):
        make_config(scenario="rotated-digits", method="stl", engine="processes", address="host:6379")
