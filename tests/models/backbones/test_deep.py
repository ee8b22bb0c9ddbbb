"""Contexts inside a backbone: outputs that start as they were, folders, mixed batches, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crwn import BackboneNet, DeepBackboneNet, ImageBackbone, Learner
from crwn.errors import ConfigError
from crwn.layers import context_names, learned_parameters
from crwn.models import build, describe, fingerprint
from crwn.models.backbones import register_backbone


def small(size: int = 16) -> ImageBackbone:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 12, 5, stride=2), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 1)
    return ImageBackbone(nn.Sequential(*layers), name="small-deep", size=size)


register_backbone("small-deep", small)


def images(count: int = 120) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, count)
    x = random.integers(0, 100, (count, 3, 16, 16)).astype(np.uint8)
    x[np.arange(count), y] += 60
    return x, np.array(["red", "green", "blue"])[y]


@pytest.mark.parametrize(("depth", "learned"), [("last", 12 * 9 + 1 + 16 + 1), ("all", 3 * 25 + 1 + 12 * 9 + 1 + 17)])
def test_outputs_start_as_those_of_the_head_alone(depth: str, learned: int) -> None:
    plain = BackboneNet(small(), 3, seed=0, gains=2)
    deep = DeepBackboneNet(small(), 3, seed=0, gains=2, depth=depth)
    x = torch.randn(4, 3, 16, 16)
    torch.testing.assert_close(deep(x), plain(x))
    torch.testing.assert_close(deep.head(deep.encode(x)), plain(x))
    assert learned_parameters(deep) == learned_parameters(plain) + learned
    assert set(context_names(deep)) == set(context_names(deep.head)) == set(deep.state_dict())


@pytest.mark.parametrize("depth", ["last", "all"])
def test_tasks_are_learned_mixed_merged_and_loaded(depth: str, tmp_path: Path) -> None:
    x, y = images()
    model = DeepBackboneNet("small-deep", 3, seed=0, depth=depth, input_shape=(3, 16, 16))
    assert fingerprint(build(describe(model))) == fingerprint(model)
    with Learner(model, bank=tmp_path / "deep.crwn") as learner:
        learner.learn("colour", x, y, method="exact", progress=False)
        before = learner.context("colour").tensors
        learner.learn("colour", x, y, resume=True, epochs=2, progress=False)
        after = learner.context("colour").tensors
        assert all(not torch.equal(before[name], after[name]) for name in before if name != "decoder.alpha")
        assert learner.score(x, y, "colour") > 0.9
        learner.learn("warm", x, y == "red", batches=5, progress=False)
        mixed = learner.logits(x[:6], ["colour", "warm"] * 3)[0]
        torch.testing.assert_close(mixed[::2], learner.logits(x[:6], "colour")[0][::2], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(mixed[1::2, :2], learner.logits(x[:6], "warm")[0][1::2], rtol=1e-3, atol=1e-3)
        expected = learner.logits(x[:4], "colour")[0]
        merged = learner.merge("colour")(torch.from_numpy(x[:4]).float())
        torch.testing.assert_close(merged, expected, rtol=1e-3, atol=1e-3)
        learner.share("colour", x, y)
        assert np.mean([one.label == label for one, label in zip(learner.classify(x), y, strict=True)]) > 0.9
    with Learner.load(tmp_path / "deep.crwn") as loaded:
        torch.testing.assert_close(loaded.logits(x[:4], "colour")[0], expected)


def test_linear_layers_of_the_backbone_come_before_the_output_layer() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 5, stride=4), nn.Flatten(), nn.Linear(72, 20), nn.ReLU(), nn.Linear(20, 9))
    x, y = images()
    learner = Learner(DeepBackboneNet(ImageBackbone(module, size=16), 3, seed=0, depth="last", blocks=2))
    learner.learn("colour", x, y, method="exact", progress=False)
    assert learner.context("colour").tensors["decoder.v"].shape == (9,)
    assert learner.score(x, y, "colour") > 0.6


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match='depth cannot be "first"'):
        DeepBackboneNet(small(), 3, seed=0, depth="first")
    with pytest.raises(ConfigError, match="has 3 blocks in a row, depth last modulates 3"):
        DeepBackboneNet(small(), 3, seed=0, blocks=3)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layer(x)
            return out

    with pytest.raises(ConfigError, match=r"Own has 0 blocks in a row.*or depth all"):
        DeepBackboneNet(ImageBackbone(Own(), size=16), 3, seed=0)
    assert DeepBackboneNet(ImageBackbone(Own(), size=16), 3, seed=0, depth="all").features == 3 * 16 * 16
