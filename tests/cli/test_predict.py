"""`crwn predict`: labels, accuracy, the inferred task, columns of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import Crwn


def test_predict_with_accuracy(crwn: Crwn, files: Path, model_folder: Path) -> None:
    facts = crwn("predict", model_folder, files / "test.npz", "--task", "up", "--json")
    assert len(facts["predictions"]) == 200
    assert facts["accuracy"] > 75
    assert facts["task"] == "up"
    with np.load(files / "test.npz") as data:
        right = np.mean(np.array(facts["predictions"]) == data["y"])
    assert facts["accuracy"] == pytest.approx(100 * right, abs=0.01)
    assert "accuracy" not in crwn("predict", model_folder, files / "unlabelled.npz", "--task", "up", "--json")
    printed = crwn("predict", model_folder, files / "unlabelled.npz", "--task", "up")
    assert [int(line) for line in printed.splitlines()] == facts["predictions"][:10]


def test_predict_infers_the_task(crwn: Crwn, files: Path, model_folder: Path) -> None:
    facts = crwn("predict", model_folder, files / "test.npz", "--json")
    assert facts["task"] == "up"
    assert [one["task"] for one in facts["inferred"]] == ["up", "down"]
    crwn("forget", model_folder, "down")
    only = crwn("predict", model_folder, files / "test.npz", "--json")
    assert only["task"] == "up"
    assert "inferred" not in only


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


def test_a_table_as_people_have_it(crwn: Crwn, tmp_path: Path) -> None:
    """A TSV with text, dates, missing values, an identifier and labels of another name: one command each."""
    random = np.random.default_rng(0)
    lines = []
    for at in range(300):
        city, member = random.choice(["Bern", "Basel", ""]), random.choice(["yes", "no"])
        day, age = f"2024-{random.integers(1, 13):02}-11", "NA" if at % 9 == 0 else f"{random.normal(40, 9):.1f}"
        outcome = "buys" if (city == "Bern") == (member == "yes") else "leaves"
        lines.append(f"c{at}\t{city}\t{day}\t{age}\t{member}\t{outcome}\n")
    head = "customer\tcity\tvisit\tage\tmember\toutcome\n"
    (tmp_path / "old.tsv").write_text(head + "".join(lines[:240]))
    (tmp_path / "new.tsv").write_text(head + "".join(lines[240:]))
    words = ("--label", "outcome", "--ignore", "customer", "--hidden", 256, "--batches", 150)
    crwn("learn", tmp_path / "s.crwn", "shop", tmp_path / "old.tsv", *words)
    assert crwn("predict", tmp_path / "s.crwn", tmp_path / "new.tsv", "--json")["accuracy"] > 90
    crwn("predict", tmp_path / "s.crwn", tmp_path / "new.tsv", "--out", tmp_path / "p.csv")
    written = (tmp_path / "p.csv").read_text().splitlines()
    assert written[0] == "line,prediction,probability"
    assert written[1].split(",")[:2] in (["2", "buys"], ["2", "leaves"])
    assert len(written) == 61
    said = crwn("learn", tmp_path / "t.crwn", "shop", tmp_path / "old.tsv", fails=True)
    assert "name the column of the labels with --label; it has customer, city, visit, age, member, outcome" in said
    assert not (tmp_path / "t.crwn").exists()


def test_photos_without_classes_are_predicted_by_file_name(crwn: Crwn, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        (tmp_path / "train" / name).mkdir(parents=True)
        for at in range(10):
            pixels = random.integers(low, low + 128, (40 + at, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / name / f"{at}.png")
    (tmp_path / "new").mkdir()
    for at in range(20):
        Image.new("RGB", (60 + at, 45), (250, 240, 230) if at % 2 else (5, 9, 3)).save(tmp_path / f"new/{at:02}.jpg")
    words = ("--image-size", "12x10", "--hidden", 128, "--batches", 60)
    crwn("learn", tmp_path / "p.crwn", "light", tmp_path / "train", *words)
    facts = crwn("predict", tmp_path / "p.crwn", tmp_path / "new", "--json")
    assert facts["files"] == [f"{at:02}.jpg" for at in range(20)]
    assert facts["predictions"] == ["dark", "light"] * 10
    assert crwn("predict", tmp_path / "p.crwn", tmp_path / "new").splitlines()[1] == "01.jpg\tlight"
    crwn("predict", tmp_path / "p.crwn", tmp_path / "new", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith("00.jpg,dark,")
    said = crwn("learn", tmp_path / "q.crwn", "light", tmp_path / "new", fails=True)
    assert "has no labels" in said


def test_a_converted_module_is_learned_and_asked(
    crwn: Crwn, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ownnet.py").write_text(
        "import crwn\nfrom torch import nn\n\n\n"
        "def make():\n"
        "    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))\n"
        "    module = crwn.neuromodulate(module, seed=0)\n"
        "    module.classes = 10\n    return module\n"
    )
    words = ("--module", "ownnet:make")
    crwn("learn", "own.crwn", "up", files / "up.npz", *words, "--batches", 60)
    assert crwn("predict", "own.crwn", files / "test.npz", *words, "--json")["accuracy"] > 70
    assert "or use --module" in crwn("predict", "own.crwn", files / "test.npz", fails=True)
    for place, said in (
        ("ownnet", "write PACKAGE:FUNCTION"),
        ("nowhere_to_find:make", "cannot be imported"),
        ("ownnet:nothing", "has no function nothing"),
        ("os:getcwd", "returned str, not an nn.Module"),
        ("os:kill", "kill() failed"),
    ):
        assert said in crwn("predict", "own.crwn", files / "test.npz", "--module", place, fails=True)
