"""The commands for model folders: learn, predict, tasks, forget, export, import-context."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crwn import Context, Learner
from crwn.cli import main
from crwn.data import load

Crwn = Callable[..., Any]
SMALL = ("--hidden", "128", "--batches", "60")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as an upright and an upside-down task, for learning and for testing, in several forms."""
    digits, folder = load("digits"), tmp_path_factory.mktemp("data")
    x, y = digits.x_train.numpy(), digits.y_train.numpy()
    np.savez(folder / "up.npz", x=x[:600], y=y[:600])
    np.savez(folder / "down.npz", x=x[:600, ::-1, ::-1], y=y[:600])
    np.savez(folder / "test.npz", x=x[600:800], y=y[600:800])
    np.savez(folder / "unlabelled.npz", x=x[600:610])
    np.savez(folder / "narrow.npz", x=x[:100, :4], y=y[:100])
    lines = [",".join(f"p{i}" for i in range(64)) + ",label"]
    names = ["even", "odd"]
    lines += [
        ",".join(map(str, row.flatten())) + f",{names[int(v) % 2]}" for row, v in zip(x[:300], y[:300], strict=True)
    ]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def crwn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Crwn:
    """Run a command in this process: gives what it printed (read as JSON where asked for), or its one error line."""

    def run(*words: object, fails: bool = False) -> Any:
        monkeypatch.setattr(sys, "argv", ["crwn", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        told = capsys.readouterr()
        if fails:
            assert caught.value.code == 1
            assert told.err.startswith("error: ")
            assert told.err.count("\n") == 1
            assert told.out == ""
            return told.err.removeprefix("error: ").rstrip("\n")
        assert caught.value.code == 0, told.err
        return json.loads(told.out) if "--json" in words else told.out

    return run


@pytest.fixture
def model(crwn: Crwn, files: Path, tmp_path: Path) -> Path:
    crwn("learn", tmp_path / "m.crwn", "up", files / "up.npz", *SMALL)
    crwn("learn", tmp_path / "m.crwn", "down", files / "down.npz", "--batches", 60)
    return tmp_path / "m.crwn"


def test_learn_makes_a_folder_sized_for_the_data(crwn: Crwn, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new.crwn"
    facts = crwn("learn", folder, "odd", files / "odd.csv", "--batches", 3, "--json")
    assert facts["params"] == 64 + 4096 + 4096 + 3
    assert facts["classes"] == ["even", "odd"]
    assert (facts["rows"], facts["batches"], facts["tasks"]) == (300, 3, 1)
    record = json.loads((folder / "model.json").read_text())
    assert record["kind"] == "neuromodnet"
    assert record["config"]["weights"] == "hadamard"
    assert (record["config"]["hidden"], record["config"]["classes"]) == ([4096, 4096], 10)
    assert sorted(path.name for path in folder.iterdir()) == ["bank.sqlite", "model.json"]
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
    crwn: Crwn, files: Path, model: Path, option: tuple[str, object], said: str
) -> None:
    assert said in crwn("learn", model, "t", files / "up.npz", "--batches", 1, *option, fails=True)
    crwn("learn", model, "same", files / "up.npz", "--batches", 1, "--seed", 0, "--hidden", 128, "--classes", 10)


def test_predict_with_accuracy(crwn: Crwn, files: Path, model: Path) -> None:
    facts = crwn("predict", model, files / "test.npz", "--task", "up", "--json")
    assert len(facts["predictions"]) == 200
    assert facts["accuracy"] > 75
    assert facts["task"] == "up"
    with np.load(files / "test.npz") as data:
        right = np.mean(np.array(facts["predictions"]) == data["y"])
    assert facts["accuracy"] == pytest.approx(100 * right, abs=0.01)
    assert "accuracy" not in crwn("predict", model, files / "unlabelled.npz", "--task", "up", "--json")
    printed = crwn("predict", model, files / "unlabelled.npz", "--task", "up")
    assert [int(line) for line in printed.splitlines()] == facts["predictions"][:10]


def test_predict_infers_the_task(crwn: Crwn, files: Path, model: Path) -> None:
    facts = crwn("predict", model, files / "test.npz", "--json")
    assert facts["task"] == "up"
    assert [one["task"] for one in facts["inferred"]] == ["up", "down"]
    crwn("forget", model, "down")
    only = crwn("predict", model, files / "test.npz", "--json")
    assert only["task"] == "up"
    assert "inferred" not in only


def test_resume_replace_and_warm_start(crwn: Crwn, files: Path, model: Path) -> None:
    said = crwn("learn", model, "up", files / "up.npz", "--batches", 1, fails=True)
    assert said == f'task "up" is in {model} already: --resume goes on, --replace starts anew'
    crwn("learn", model, "up", files / "up.npz", "--batches", 2, "--resume")
    crwn("learn", model, "up", files / "up.npz", "--batches", 2, "--replace")
    crwn("learn", model, "warm", files / "up.npz", "--batches", 2, "--start", "nearest", "--validation", "0.2")
    listed = crwn("tasks", model, "--json")["tasks"]
    assert [one["task"] for one in listed] == ["down", "up", "warm"]
    assert 1 < listed[2]["accuracy"] <= 100
    assert f"{listed[2]['accuracy']:.1f}%" in crwn("tasks", model)


def test_tasks_and_forget(crwn: Crwn, model: Path) -> None:
    listed = crwn("tasks", model, "--json")
    assert listed["count"] == 2
    up = listed["tasks"][1]
    assert (up["task"], up["classes"], up["params"], up["rows"]) == ("up", list(range(10)), 64 + 128 + 128 + 3, 600)
    assert up["bytes"] > 4 * up["params"]
    assert [one["task"] for one in crwn("tasks", model, "--prefix", "d", "--json")["tasks"]] == ["down"]
    table = crwn("tasks", model, "--limit", 1)
    assert "down" in table
    assert "2 tasks in" in table
    assert crwn("forget", model, "down") == f'forgot "down"; 1 task left in {model}\n'
    assert crwn("tasks", model, "--json")["count"] == 1
    assert '"down"' in crwn("forget", model, "down", fails=True)


def test_a_context_travels_between_folders_of_one_model(crwn: Crwn, files: Path, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "up.safetensors"
    facts = crwn("export", model, "up", file, "--json")
    assert facts["bytes"] == file.stat().st_size
    assert Context.load(file).name == "up"
    before = crwn("predict", model, files / "test.npz", "--task", "up", "--json")["predictions"]
    crwn("forget", model, "up")
    assert crwn("import-context", model, file) == f'added "up"; 2 tasks in {model} now\n'
    assert crwn("predict", model, files / "test.npz", "--task", "up", "--json")["predictions"] == before
    assert '"up"' in crwn("import-context", model, file, fails=True)
    crwn("import-context", model, file, "--replace")
    crwn("learn", tmp_path / "other.crwn", "t", files / "up.npz", "--seed", 1, *SMALL)
    assert "load the model it belongs to" in crwn("import-context", tmp_path / "other.crwn", file, fails=True)
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged" in crwn("import-context", model, file, "--replace", fails=True)
    assert "ends in .pt" in crwn("export", model, "up", tmp_path / "up.pt", fails=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("learn", "{m}", "t", "nowhere.npz"), "nowhere.npz is not there"),
        (("learn", "{m}", "t", "{d}/unlabelled.npz"), "has no labels"),
        (("learn", "{m}", "t", "{d}/narrow.npz"), "rows have shape"),
        (("learn", "{m}", "", "{d}/up.npz"), "task name"),
        (("learn", "{m}", "t", "{d}/up.npz", "--batches", "1", "--epochs", "1"), "both batches (1) and epochs (1)"),
        (("learn", "{m}", "none", "{d}/up.npz", "--resume"), '"none"'),
        (("learn", "{m}", "t", "{d}/up.npz", "--validation", "0"), "share between 0 and 1"),
        (("predict", "{m}", "{d}/test.npz", "--task", "u"), '"u"'),
        (("predict", "{m}", "{d}/narrow.npz", "--task", "up"), "rows have shape"),
        (("predict", "nowhere.crwn", "{d}/test.npz"), "there is no model folder"),
        (("export", "{m}", "none", "x.safetensors"), '"none"'),
        (("export", "{m}", "up", "/nowhere/x.safetensors"), "/nowhere"),
        (("import-context", "{m}", "nowhere.safetensors"), "cannot read context file"),
        (("learn", "{d}", "t", "{d}/up.npz"), "is not a model folder"),
        (("learn", "{d}/up.npz", "t", "{d}/up.npz"), "is not a model folder"),
    ],
)
def test_bad_input_is_one_line_and_harms_nothing(
    crwn: Crwn, files: Path, model: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in crwn(*(word.format(m=model, d=files) for word in words), fails=True)
    with Learner.load(model) as learner:
        assert learner.tasks == ["down", "up"]


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
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["training_accuracy"] > 75
    words = [program, "predict", str(tmp_path / "m.crwn"), str(files / "test.npz"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["accuracy"] > 75


def test_columns_of_a_table_are_found_by_name(crwn: Crwn, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [30, 0.3, 10] + [100, 1, 40]
    label = np.where(rows[:, 1] > 1, "buys", "leaves")
    frame = {"price": rows[:, 0], "visits": rows[:, 1], "age": rows[:, 2], "label": label}

    def write(name: str, columns: list[str]) -> Path:
        lines = [
            ",".join(columns),
            *(",".join(map(str, line)) for line in zip(*(frame[c] for c in columns), strict=True)),
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    shop = tmp_path / "shop.crwn"
    learned = crwn("learn", shop, "north", write("north.csv", [*frame]), "--hidden", 256, "--batches", 200, "--json")
    assert learned["training_accuracy"] > 95
    told = crwn("predict", shop, write("same.csv", ["price", "visits", "age"]), "--task", "north", "--json")
    other = crwn("predict", shop, write("turned.csv", ["age", "label", "price", "visits"]), "--json")
    assert told["predictions"] == other["predictions"]
    assert other["accuracy"] > 95
    said = crwn("predict", shop, write("less.csv", ["price", "age"]), "--task", "north", fails=True)
    assert "it lacks 'visits'; give price, visits, age" in said


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
