"""`crwn learn`: new folders sized for the data, options, resuming, columns of tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import SMALL, Crwn
from crwn import Learner


def test_learn_makes_a_folder_sized_for_the_data(crwn: Crwn, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new.crwn"
    facts = crwn("learn", folder, "odd", files / "odd.csv", "--batches", 3, "--json")
    assert facts["params_per_task"] == facts["params"] == 65 + 1024 + 2
    assert facts["classes"] == ["even", "odd"]
    assert (facts["rows"], facts["batches"], facts["tasks"]) == (300, 3, 1)
    record = json.loads((folder / "model.json").read_text())
    assert record["kind"] == "neuromodnet"
    assert (record["config"]["weights"], record["config"]["constant"]) == ("gaussian", True)
    assert (record["config"]["hidden"], record["config"]["classes"]) == ([1024], 10)
    assert sorted(path.name for path in folder.iterdir()) == ["bank.sqlite", "model.json"]
    assert (facts["held_out"], facts["kind"]) == (60, "classification")
    crwn("learn", tmp_path / "pixels.crwn", "ten", files / "up.npz", "--batches", 1)
    config = json.loads((tmp_path / "pixels.crwn" / "model.json").read_text())["config"]
    assert (config["hidden"], config["weights"], "constant" in config) == ([4096, 4096], "hadamard", False)
    again = crwn("learn", folder, "ten", files / "up.npz", "--batches", 2)
    assert again.startswith('learned "ten": 600 rows, 10 classes, 2 batches in')
    assert "which has 2 tasks now" in again


def test_learn_options_of_a_new_folder(crwn: Crwn, files: Path, tmp_path: Path) -> None:
    words = ("--model", "flynet", "--hidden", 100, "--seed", 3, "--classes", 12, "--batches", 2, "--json")
    assert crwn("learn", tmp_path / "f.crwn", "t", files / "up.npz", *words)["params"] == 101
    record = json.loads((tmp_path / "f.crwn" / "model.json").read_text())
    assert (record["kind"], record["config"]["seed"], record["config"]["classes"]) == ("flynet", 3, 12)
    crwn("learn", tmp_path / "g.crwn", "t", files / "up.npz", "--weights", "gaussian", *SMALL, "--recipe", "paper")
    assert json.loads((tmp_path / "g.crwn" / "model.json").read_text())["config"]["weights"] == "gaussian"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--seed", 1), "was made with --seed 0, not 1"),
        (("--hidden", 64), r"was made with --hidden [128, 128], not 64"),
        (("--classes", 5), "was made with --classes 10, not 5"),
        (("--model", "flynet"), "was made with --model neuromodnet, not flynet"),
        (("--weights", "gaussian"), "was made with --weights hadamard, not gaussian"),
    ],
)
def test_options_cannot_change_a_folder_that_is_there(
    crwn: Crwn, files: Path, model_folder: Path, option: tuple[str, object], said: str
) -> None:
    assert said in crwn("learn", model_folder, "t", files / "up.npz", "--batches", 1, *option, fails=True)
    crwn("learn", model_folder, "same", files / "up.npz", "--batches", 1, "--seed", 0, "--hidden", 128, "--classes", 10)


def test_resume_replace_and_warm_start(crwn: Crwn, files: Path, model_folder: Path) -> None:
    said = crwn("learn", model_folder, "up", files / "up.npz", "--batches", 1, fails=True)
    assert said == f'task "up" is in {model_folder} already: --resume continues it, --replace starts over'
    crwn("learn", model_folder, "up", files / "up.npz", "--batches", 2, "--resume")
    crwn("learn", model_folder, "up", files / "up.npz", "--batches", 2, "--replace")
    crwn("learn", model_folder, "warm", files / "up.npz", "--batches", 2, "--start", "nearest", "--validation", "0.2")
    listed = crwn("tasks", model_folder, "--json")["tasks"]
    assert [one["task"] for one in listed] == ["down", "up", "warm"]
    assert 1 < listed[2]["accuracy"] <= 100
    assert f"{listed[2]['accuracy']:.1f}%" in crwn("tasks", model_folder)


@pytest.mark.parametrize(
    "words",
    [
        ("up.npz", "--classes", "2"),
        ("up.npz", "--resume"),
        ("up.npz", "--validation", "0.0001"),
        ("unlabelled.npz",),
        ("up.npz", "--model", "flynet", "--weights", "gaussian"),
        ("up.npz", "--batches", "5", "--epochs", "2"),
        ("up.npz", "--start", "nobody"),
    ],
)
def test_a_refused_first_task_leaves_no_folder_of_the_wrong_size(
    crwn: Crwn, files: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    crwn("learn", tmp_path / "m.crwn", "t", files / words[0], *words[1:], fails=True)
    assert not (tmp_path / "m.crwn").exists()


def test_in_a_process_of_its_own_progress_stays_off_stdout(files: Path, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("crwn"))
    words = [program, "learn", str(tmp_path / "m.crwn"), "t", str(files / "up.npz"), "--json", *SMALL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["training_accuracy"] > 75
    words = [program, "predict", str(tmp_path / "m.crwn"), str(files / "test.npz"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout)["accuracy"] > 75


def test_columns_of_inferred_and_resumed_tasks(crwn: Crwn, tmp_path: Path) -> None:
    """Every task has its columns in the order it was learned from."""
    random = np.random.default_rng(0)

    def write(name: str, columns: str, wide: int) -> Path:
        """The column `wide` decides, and is wider than the other: rows tell which task they are of."""
        rows = random.normal(size=(200, 2))
        rows[:, wide] = np.where(rows[:, wide] > 0, 1, -1) * random.uniform(3, 4, 200)
        lines = [f"{a},{b},{'yes' if (a, b)[wide] > 0 else 'no'}" for a, b in rows]
        (tmp_path / name).write_text("\n".join([f"{columns},label", *lines]) + "\n")
        return tmp_path / name

    model = tmp_path / "m.crwn"
    options = ("--hidden", 128, "--batches", 150, "--json")
    crwn("learn", model, "A", write("ab.csv", "a,b", 0), *options)
    crwn("learn", model, "B", write("ba.csv", "b,a", 0), *options)
    found = crwn("predict", model, tmp_path / "ba.csv", "--json")
    assert found["accuracy"] > 95
    said = crwn("predict", model, write("cd.csv", "c,d", 0), fails=True)
    assert "it lacks 'a', 'b' and has 'c', 'd'" in said
    swapped = write("swapped.csv", "b,a", 1)  # the rule of A, its columns the other way round
    assert crwn("learn", model, "A", swapped, "--resume", "--batches", 5, "--json")["training_accuracy"] > 95
    assert crwn("predict", model, tmp_path / "ab.csv", "--task", "A", "--json")["accuracy"] > 95
    crwn("learn", model, "A", tmp_path / "cd.csv", "--resume", "--batches", 5, fails=True)
    with Learner.load(model) as learner:
        assert learner.context("A").info["columns"] == ["a", "b"]


def test_a_folder_of_photographs_is_learned_by_frozen_filters(crwn: Crwn, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for at in range(24):
        name = ("stripes", "spots")[at % 2]
        photo = generator.integers(0, 60, (20, 24, 3))
        if name == "stripes":
            photo[:, at // 2 % 4 :: 4] += 180
        else:
            photo[at // 2 % 6 :: 6, at // 3 % 6 :: 6] += 190
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo.astype(np.uint8)).save(tmp_path / "photos" / name / f"{at}.png")
    words = ("--model", "flynet", "--size", "5k", "--batches", 20)
    facts = crwn("learn", tmp_path / "eye.crwn", "photos", tmp_path / "photos", *words, "--json")
    assert (facts["params_per_task"], facts["training_accuracy"]) == (4897, 100.0)
    assert sorted(path.name for path in (tmp_path / "eye.crwn").iterdir()) == ["bank.sqlite", "model.json"]
    assert json.loads((tmp_path / "eye.crwn" / "model.json").read_text())["kind"] == "image-flynet"
    predicted = crwn("predict", tmp_path / "eye.crwn", tmp_path / "photos", "--json")
    assert predicted["accuracy"] == 100.0
    again = crwn("learn", tmp_path / "eye.crwn", "again", tmp_path / "photos", *words)
    assert "which has 2 tasks now" in again
    other = crwn(
        "learn", tmp_path / "eye.crwn", "x", tmp_path / "photos", "--model", "flynet", "--size", "10k", fails=True
    )
    assert "was made with --size 5k, not 10k" in other
    flat = crwn("learn", tmp_path / "new.crwn", "x", tmp_path / "photos", "--size", "5k", fails=True)
    assert "--size 5k is for images and --model flynet" in flat


def test_learns_in_closed_form_and_adds_rows(crwn: Crwn, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exact.crwn"
    words = ("--exact", "--keep-statistics", "--model", "flynet", "--hidden", 200, "--json")
    facts = crwn("learn", folder, "t", files / "up.npz", *words)
    assert facts["exact"]["ridge"] > 0
    assert facts["exact"]["statistics_bytes"] > 100_000
    again = crwn("learn", folder, "t", files / "up.npz", "--exact", "--resume", "--json")
    assert again["exact"]["statistics"] != facts["exact"]["statistics"]
