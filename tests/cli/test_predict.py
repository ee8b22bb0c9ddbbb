"""`crwn predict`: labels, accuracy, the inferred task, columns of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
