"""How a task scales its inputs: with two numbers, or column by column for tables of different units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import crwn
from crwn.data import load
from crwn.data.standardize import Standardize, check_scaling, measure_scaling, stack_scalings, standardize_per_task
from crwn.errors import ContextError

WRONG: list[Any] = [
    None,
    [1.0],
    [0.0, 0.0],
    [float("nan"), 1.0],
    [0.0, -1.0],
    ["0", "1"],
    {"mean": 0},
    [[0.0], 1.0],
    [[], []],
    [[0.0, 0.0], [1.0]],
    [[0.0], [0.0]],
    [["0"], ["1"]],
]


def test_scaling_is_measured_over_all_numbers() -> None:
    x = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    mean, std = measure_scaling(x, table=False)
    assert mean == 4.0
    assert std == pytest.approx(5**0.5)
    assert measure_scaling(torch.full((3, 2), 7.0), table=False) == (7.0, 1.0)
    assert measure_scaling(torch.full((3, 2), 7.0)) == ((7.0, 7.0), (1.0, 1.0))
    scaled = Standardize((mean, std))(x)
    assert float(scaled.std(correction=0)) == pytest.approx(1.0)
    assert x[0, 0] == 1.0
    assert Standardize((1.0, 2.0))(torch.tensor([5], dtype=torch.uint8)).tolist() == [2.0]


@pytest.mark.parametrize("wrong", WRONG)
def test_scaling_from_elsewhere_is_checked(wrong: object) -> None:
    check_scaling([0.0, 1.0], "t")
    check_scaling([[0.0, 5.0], [1.0, 2.0]], "t", 2)
    with pytest.raises(ContextError, match='context for task "t" has scaling'):
        check_scaling(wrong, "t")


def test_columns_must_be_those_of_the_model() -> None:
    with pytest.raises(ContextError, match="one for every column"):
        check_scaling([[0.0, 5.0], [1.0, 2.0]], "t", 3)


def test_columns_of_different_units_are_measured_apart() -> None:
    x = torch.tensor([[1.0, 0.1, 500.0, 7.0], [3.0, 0.3, 700.0, 7.0]])
    scaling = measure_scaling(x)
    assert scaling == ((2.0, 0.2, 600.0, 7.0), (1.0, 0.1, 100.0, 1.0))
    assert Standardize(scaling)(x)[:, :3].abs().flatten().tolist() == pytest.approx([1.0] * 6)


def test_pixels_are_not() -> None:
    """Pixels at the edge hardly vary: scaled by their own deviation, they would be noise."""
    rows = load("digits").x_train.flatten(1).float()
    assert isinstance(measure_scaling(rows, table=True)[0], tuple)
    mean, std = measure_scaling(rows)
    assert isinstance(mean, float)
    assert isinstance(std, float)


def test_images_and_bytes_are_measured_as_a_whole() -> None:
    images = torch.rand(4, 3, 2, 2) * torch.tensor([1.0, 100.0, 1.0]).view(3, 1, 1)
    assert isinstance(measure_scaling(images)[0], float)
    assert isinstance(measure_scaling(torch.tensor([[1, 1, 255], [2, 3, 250]], dtype=torch.uint8))[0], float)


def test_scalings_of_both_kinds_side_by_side() -> None:
    x = torch.arange(6.0).view(2, 3)
    both = stack_scalings([(1.0, 2.0), ((0.0, 1.0, 2.0), (1.0, 2.0, 4.0))])
    assert both.shape == (2, 2, 3)
    expected = torch.stack([(x[0] - 1) / 2, (x[1] - torch.arange(3.0)) / torch.tensor([1.0, 2.0, 4.0])])
    assert torch.equal(standardize_per_task(x, both), expected)
    assert stack_scalings([(1.0, 2.0)] * 4).shape == (4, 2, 1)


# Thirteen measurements of wines, from 0.1 to 1,680.


@pytest.fixture(scope="module")
def taught() -> crwn.Learner:
    wine = load_wine()
    taught = crwn.Learner(crwn.NeuroModNet(13, (256,), 3, seed=0))
    taught.learn("raw", wine.data[::2], wine.target[::2], batches=200, progress=False)
    alike = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    taught.learn("scaled", alike[::2], wine.target[::2], batches=200, progress=False)
    return taught


@pytest.fixture(scope="module")
def wines() -> tuple[np.ndarray, np.ndarray]:
    wine = load_wine()
    return wine.data[1::2].astype("float32"), wine.target[1::2]


def test_a_table_is_learned_as_it_comes(taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray]) -> None:
    assert taught.score(*wines, task="raw") > 0.9
    assert len(taught.context("raw").info["scaling"][0]) == 13


@pytest.mark.filterwarnings("ignore:these rows are")  # raw rows for the task of scaled ones
def test_mixed_rows_equal_task_by_task(taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray]) -> None:
    x = wines[0][:6]
    names = ["raw", "scaled"] * 3
    mixed, _, _ = taught.logits(x, names)
    for at, name in enumerate(names):
        alone, _, _ = taught.logits(x[at : at + 1], name)
        assert torch.allclose(mixed[at], alone[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("method", ["exhaustive", "sketch"])
def test_the_task_of_a_table_is_inferred(
    taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray], method: crwn.learner.task_inference.Method
) -> None:
    assert taught.infer_task(wines[0], method=method, keep=1)[0].task == "raw"


def test_gradients_take_scalings_of_both_kinds(taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray]) -> None:
    assert taught.infer_task(wines[0], method="one-shot", keep=1)[0].task in ("raw", "scaled")


def test_a_table_is_merged_saved_and_moved(
    taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    expected, _, _ = taught.logits(wines[0], "raw")
    assert torch.allclose(taught.merge("raw")(torch.from_numpy(wines[0])), expected, atol=1e-4)
    taught.save(tmp_path / "wine.crwn")
    with crwn.Learner.load(tmp_path / "wine.crwn") as again:
        assert torch.equal(again.logits(wines[0], "raw")[0], expected)
    taught.context("raw").save(tmp_path / "raw.safetensors")
    other = crwn.Learner(crwn.NeuroModNet(13, (256,), 3, seed=0))
    other.add(crwn.Context.load(tmp_path / "raw.safetensors"))
    assert torch.equal(other.logits(wines[0], "raw")[0], expected)


def test_going_on_keeps_the_columns(taught: crwn.Learner, wines: tuple[np.ndarray, np.ndarray]) -> None:
    before = taught.context("raw").info["scaling"]
    taught.learn("raw", wines[0] * 2, wines[1], batches=1, resume=True, progress=False)
    assert taught.context("raw").info["scaling"] == before


def test_a_small_column_among_few_is_seen() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=random) * torch.tensor([30.0, 0.3, 10.0])
    std = measure_scaling(x)[1]
    assert isinstance(std, tuple)
    assert std == pytest.approx((30, 0.3, 10), rel=0.2)
    assert isinstance(measure_scaling(x[:, [0, 2]])[1], tuple)
    border = torch.rand(400, 64, generator=random)
    border[:, :8] *= 0.01  # pixels at the border are small, and stay so
    assert isinstance(measure_scaling(border)[1], float)
