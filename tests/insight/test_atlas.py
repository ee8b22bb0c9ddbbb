"""The atlas of real contexts: learned rotations of handwritten digits."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crwn
from crwn.cli import app
from crwn.errors import ConfigError, DataError
from crwn.experiments import make_config, run
from crwn.insight import Collection, collect, make_atlas, pictures
from crwn.insight.atlas import summary_lines
from crwn.insight.collection import factors_from_names
from crwn.insight.meaning import Step


@pytest.fixture(scope="module")
def rotations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eighteen rotations, 20 degrees apart."""
    folder = tmp_path_factory.mktemp("runs") / "seed-0"
    scenario = folder.parent / "turned.toml"
    scenario.write_text('kind = "rotated"\ndata = "digits"\nstep = 20\nbatches = 150\n')
    run(make_config(scenario=str(scenario), method="neuromodnet", size="256", threads=1), folder)
    return folder


def test_rotations_make_a_ring(rotations: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["atlas", str(rotations), "--out", str(tmp_path), "--permutations", "999", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["tasks"] == 18
    by_angle = {step["distance"]: step["mean"] for step in found["similarity_by"]["angle"]}
    assert by_angle[20] > max(by_angle[60], by_angle[100])
    tests = {(one["layer"], one["measure"]): one for one in found["tests"] if one["structure"] == "angle"}
    assert tests["all", "cosine"]["p_value"] < 0.05
    assert tests["all", "effect"]["p_value"] < 0.01
    assert found["rings"]["effect"] > 0.7
    assert {Path(path).name for path in found["files"]} >= {
        "similarity.png",
        "similarity.svg",
        "tree.png",
        "map-contexts.png",
        "map-effect.svg",
        "inputs.png",
        "by-angle.png",
        "alpha.png",
        "tasks.csv",
        "similarity.csv",
        "atlas.json",
    }
    assert all(Path(path).stat().st_size > 0 for path in found["files"])


def test_tables_hold_every_task(rotations: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["atlas", str(rotations.parent), "--permutations", "99", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "ring on the map of effect" in done.stdout
    with (tmp_path / "tasks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["task"] for row in rows] == [f"rotate-{20 * k:03d}" for k in range(18)]
    assert sorted(int(row["place_in_tree"]) for row in rows) == list(range(18))
    assert {float(row["angle"]) for row in rows} == {20.0 * k for k in range(18)}


def test_a_model_folder_has_an_atlas_too(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(120, 9)).astype("float32")
    with crwn.Learner(crwn.NeuroModNet(9, (32,), 2, seed=0), bank=tmp_path / "m.crwn") as learner:
        learner.learn_many({f"column {i}": (x, x[:, i] > 0) for i in range(5)}, batches=30, progress=False)
    found = collect(tmp_path / "m.crwn")
    assert found.names == [f"column {i}" for i in range(5)]
    assert found.factors == [{"number": float(i)} for i in range(5)]
    atlas = make_atlas(found, permutations=99)
    assert atlas.rings == {}
    assert {test.structure for _, _, test in atlas.tests} == {"number"}


def test_methods_that_keep_no_contexts_and_other_folders_are_refused(tmp_path: Path) -> None:
    run(make_config(scenario="rotated-digits", method="finetune", size="16", tasks=2, batches=2), tmp_path / "run")
    with pytest.raises(DataError, match="has no state for each task"):
        collect(tmp_path / "run")
    with pytest.raises(ConfigError, match="neither a model nor a run"):
        collect(tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        collect(tmp_path / "nowhere")
    with pytest.raises(DataError, match="at least 3"):
        make_atlas(Collection("two", ["a", "b"], [{}, {}]))


def test_factors_told_by_names() -> None:
    assert factors_from_names(["rotate-10", "rotate-350.5"]) == [{"angle": 10.0}, {"angle": 350.5}]
    assert factors_from_names(["site 1", "site 2"]) == [{"number": 1.0}, {"number": 2.0}]
    assert factors_from_names(["site 1", "place 2"]) == [{}, {}]


def test_a_run_of_contexts_needs_its_scenario_no_more_any_other_does(tmp_path: Path) -> None:
    scenario = tmp_path / "turned.toml"
    scenario.write_text('kind = "rotated"\ndata = "digits"\nstep = 90\nbatches = 2\n')
    for method in ("neuromodnet", "supsup"):
        run(make_config(scenario=str(scenario), method=method, size="8", threads=1), tmp_path / method)
        assert len(collect(tmp_path / method).names) == 4
    scenario.write_text('kind = "rotated"\ndata = "digits"\nstep = 80\ntasks = 4\nbatches = 2\n')
    with pytest.raises(ConfigError, match="has changed since the run"):
        collect(tmp_path / "supsup")
    scenario.unlink()
    with pytest.raises(ConfigError, match="not to be found from here"):
        collect(tmp_path / "supsup")
    found = collect(tmp_path / "neuromodnet")
    assert found.names == ["rotate-000", "rotate-090", "rotate-180", "rotate-270"]
    assert found.factors[1] == {"angle": 90.0}


def test_layers_of_equal_alpha_share_a_line() -> None:
    drawn = pictures.draw_alphas({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [3.0, 1.0]}, ["left", "right"], "Alpha")
    (axes,) = drawn.axes
    assert [line.get_label() for line in axes.lines] == ["a, b", "c"]


def test_long_titles_are_wrapped() -> None:
    steps = [Step(distance, 0.1, 0.0, 0.2, 3) for distance in (0.0, 0.5, 1.0)]
    drawn = pictures.draw_against(steps, "shared classes", "Similarity against shared classes: " + "folder " * 12)
    (axes,) = drawn.axes
    assert max(map(len, axes.get_title().splitlines())) <= 72
    assert axes.lines[0].get_xdata().tolist() == [1.0, 0.5, 0.0]
    assert axes.get_xlabel() == "share of classes that two tasks have in common"


def test_shared_classes_are_told_as_a_share(tmp_path: Path) -> None:
    learner = crwn.Learner(crwn.NeuroModNet(4, (8,), 4, seed=0))
    rows = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
    for name, labels in (("one", "ab"), ("two", "ab"), ("three", "cd")):
        learner.learn(name, rows, list(labels * 6), batches=2, progress=False)
    learner.save(tmp_path / "m.crwn")
    (line,) = [one for one in summary_lines(make_atlas(collect(tmp_path / "m.crwn"))) if "shared" in one]
    assert line.startswith("mean similarity by shared classes: 0%: ")
    assert ", 100%: " in line
