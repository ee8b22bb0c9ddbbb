"""What used to go wrong silently: each is one clear line now."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import crwn
from crwn import Learner, NeuroModNet, Recipe
from crwn.errors import ConfigError, DataError, ModelError, ScaleWarning

IMAGES = np.random.default_rng(0).integers(0, 256, size=(60, 64)).astype("uint8")
LABELS = np.arange(60) % 2


@pytest.fixture
def learner() -> Learner:
    return Learner(NeuroModNet(64, (16,), 2, seed=0))


@pytest.mark.parametrize("bytes_first", [True, False])
def test_rows_of_another_scale(learner: Learner, bytes_first: bool) -> None:
    shares = IMAGES.astype("float32") / 255
    taught, other = (IMAGES, shares) if bytes_first else (shares, IMAGES)
    learner.learn("t", taught, LABELS, batches=2, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.predict(taught)
        learner.predict(np.zeros_like(taught[:1]))  # a blank image
    with pytest.warns(ScaleWarning, match=r'task "t" learned from: are they in another unit'):
        learner.predict(other)


def test_a_task_of_one_class(learner: Learner) -> None:
    with pytest.raises(
        DataError, match=r"all 60 rows of task .* have the label 'a': a task needs at least two classes"
    ):
        learner.learn("one", IMAGES, ["a"] * 60, progress=False)
    assert learner.tasks == []


class Flipped(Dataset[tuple[Tensor, int]]):
    """Rows that are mirrored at random each time they are read."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        row = torch.from_numpy(IMAGES[at])
        return (row.flip(0) if torch.rand(()) < 0.5 else row), int(LABELS[at])


@pytest.mark.parametrize("loader", [False, True])
def test_a_dataset_with_random_augmentation(learner: Learner, loader: bool) -> None:
    data = DataLoader(Flipped(), batch_size=8) if loader else Flipped()
    with pytest.raises(DataError, match=r"is another one each time it is read \(random augmentation\?\)"):
        learner.learn("t", data, progress=False)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))


def test_a_plain_module() -> None:
    with pytest.raises(ModelError, match=r"Sequential is a plain module .* pass crwn.neuromodulate\(module, seed=0\)"):
        Learner(plain())


def test_outputs_are_found_by_a_trial_call(tmp_path: Path) -> None:
    module = crwn.neuromodulate(plain(), seed=0)
    learner = Learner(module, bank=tmp_path / "m.crwn")
    with pytest.raises(ConfigError, match="not known yet: learn a task"):
        _ = learner.outputs
    x = IMAGES.astype("float32")
    learner.learn("t", x, LABELS, batches=2, progress=False)
    assert learner.outputs == 3
    learner.close()
    with Learner.load(tmp_path / "m.crwn", model=module) as again:
        assert again.predict(x[:4]).shape == (4,)
    with pytest.raises(DataError, match="has 4 classes, this model has 3 outputs"):
        Learner(module).learn("u", x, np.arange(60) % 4, progress=False)


def test_a_module_that_returns_no_logits() -> None:
    module = crwn.neuromodulate(nn.Sequential(nn.Linear(64, 8), nn.Unflatten(1, (2, 4))), seed=0)
    with pytest.raises(ModelError, match=r"returns of shape \(2, 2, 4\) for 2 rows: it must return logits"):
        Learner(module).learn("t", IMAGES.astype("float32"), LABELS, progress=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r'device="cuda" but torch .* finds no CUDA here: use device="cpu"'):
        Learner(NeuroModNet(64, (16,), 2, seed=0), device="cuda")
    with pytest.raises(ConfigError, match='unknown device "gpu"'):
        Learner(NeuroModNet(64, (16,), 2, seed=0), device="gpu")


def test_an_unknown_field_of_a_recipe() -> None:
    with pytest.raises(ConfigError, match='unknown recipe field "learning_rate": choose from optimizer, rate'):
        Recipe(learning_rate=0.1)


def test_columns_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=(80, 2))
    learner = Learner(NeuroModNet(2, (32,), 2, seed=0))
    learner.learn("t", pandas.DataFrame(x, columns=["a", "b"]), x[:, 0] > 0, batches=80, progress=False)
    swapped = pandas.DataFrame(x[:, ::-1], columns=["b", "a"])
    assert (learner.predict(swapped) == learner.predict(pandas.DataFrame(x, columns=["a", "b"]))).all()
