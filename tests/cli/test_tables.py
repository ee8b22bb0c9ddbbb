"""Tables by command line with nothing but defaults: thresholds, a rare class, several labels, numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_circles

from command_line import Crwn

RNG = np.random.default_rng(7)


def write(path: Path, x: np.ndarray, y: list[object]) -> Path:
    names = ",".join(f"c{at}" for at in range(x.shape[1]))
    lines = [",".join(f"{value:.4f}" for value in row) + f",{label}" for row, label in zip(x, y, strict=True)]
    path.write_text(f"{names},label\n" + "\n".join(lines) + "\n")
    return path


def temperature() -> tuple[np.ndarray, list[object]]:
    x = RNG.normal(20, 8, size=(600, 1))
    return x, ["hot" if value > 28 else "mild" for value in x[:, 0]]


def circles() -> tuple[np.ndarray, list[object]]:
    x, y = make_circles(600, factor=0.5, noise=0.05, random_state=1)
    return x, y.tolist()


def corner() -> tuple[np.ndarray, list[object]]:
    x = RNG.random((600, 2))
    return x, (x.sum(axis=1) > 1).astype(int).tolist()


@pytest.mark.parametrize(("table", "least"), [(temperature, 97.0), (circles, 95.0), (corner, 98.0)])
@pytest.mark.parametrize("network", ["neuromodnet", "flynet"])
def test_thresholds(crwn: Crwn, tmp_path: Path, table: object, least: float, network: str) -> None:
    assert callable(table)
    x, y = table()
    file, new = write(tmp_path / "t.csv", x[:450], y[:450]), write(tmp_path / "new.csv", x[450:], y[450:])
    facts = crwn("learn", tmp_path / "m.crwn", "t", file, "--model", network, "--json")
    assert facts["accuracy"] >= facts["majority"]
    assert crwn("predict", tmp_path / "m.crwn", new, "--json")["accuracy"] >= least


def test_a_rare_class_is_found(crwn: Crwn, tmp_path: Path) -> None:
    """57 of 3,000 rows: large amounts at night."""
    x = np.column_stack([RNG.lognormal(3, 0.6, 3000), RNG.integers(0, 24, 3000), RNG.integers(1, 2000, 3000)])
    rare = np.zeros(3000, dtype=int)
    rare[np.argsort(-(np.log(x[:, 0]) + 1.0 * (x[:, 1] < 6)))[:57]] = 1
    file = write(tmp_path / "t.csv", x, rare.tolist())
    told = crwn("learn", tmp_path / "m.crwn", "fraud", file)
    assert "majority 98.2%, balanced" in told
    assert "on 600 rows held out, then learned from all rows" in told
    found = np.array(crwn("predict", tmp_path / "m.crwn", file, "--json")["predictions"])
    assert int(found[rare == 1].sum()) >= 50
    assert int(found[rare == 0].sum()) < 10
    assert "balanced" in crwn("tasks", tmp_path / "m.crwn")


def test_a_model_that_is_no_better_than_the_majority_is_called_so(crwn: Crwn, tmp_path: Path) -> None:
    x = RNG.normal(size=(100, 2))
    file = write(tmp_path / "noise.csv", x, ["a" if at % 20 else "b" for at in range(100)])
    told = crwn("learn", tmp_path / "m.crwn", "noise", file, "--batches", 3)
    assert "balanced 50.0%" in told
    assert "(no better than a constant answer)" in crwn("tasks", tmp_path / "m.crwn")


def test_multilabel(crwn: Crwn, tmp_path: Path) -> None:
    x = RNG.normal(size=(300, 2))
    y = ["|".join(name for name, has in zip(("red", "round"), row > 0, strict=True) if has) or "none" for row in x]
    file = write(tmp_path / "t.csv", x, list(y))
    facts = crwn("learn", tmp_path / "m.crwn", "tags", file, "--multilabel", "--batches", 150, "--json")
    assert (facts["kind"], facts["classes"]) == ("multilabel", ["none", "red", "round"])
    assert facts["accuracy"] > 85
    found = crwn("predict", tmp_path / "m.crwn", file, "--json")
    assert found["accuracy"] > 80
    assert all(isinstance(one, list) for one in found["predictions"])
    lines = crwn("predict", tmp_path / "m.crwn", file).splitlines()
    assert "red|round" in lines


def test_a_row_of_a_multilabel_task_may_have_no_label(crwn: Crwn, tmp_path: Path) -> None:
    x = RNG.normal(size=(300, 2))
    y = ["|".join(name for name, has in zip(("red", "round"), row > 0, strict=True) if has) for row in x]
    file = write(tmp_path / "t.csv", x, list(y))
    facts = crwn("learn", tmp_path / "m.crwn", "tags", file, "--multilabel", "--batches", 150, "--json")
    assert facts["classes"] == ["red", "round"]
    found = crwn("predict", tmp_path / "m.crwn", file, "--json")
    assert found["accuracy"] > 80
    assert [] in found["predictions"]
    resumed = crwn("learn", tmp_path / "m.crwn", "tags", file, "--resume", "--batches", 10, "--json")
    assert resumed["classes"] == ["red", "round"]


def test_regression(crwn: Crwn, tmp_path: Path) -> None:
    x = RNG.normal(size=(300, 2))
    file = write(tmp_path / "t.csv", x, [round(float(100 + 20 * a - 5 * b), 3) for a, b in x])
    told = crwn("learn", tmp_path / "m.crwn", "price", file, "--regression", "--batches", 200)
    assert "predicts 1 number per row" in told
    assert "R2 " in told.splitlines()[1]
    assert crwn("predict", tmp_path / "m.crwn", file, "--json")["r2"] > 0.9
    assert "R2 " in crwn("tasks", tmp_path / "m.crwn")
