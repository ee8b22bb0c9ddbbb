"""BackboneNet: its formula, its description, learning with a Learner, and weights that changed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import crwn
from crwn import BackboneNet, ImageBackbone
from crwn.errors import ConfigError, DataError, ModelError
from crwn.layers import learned_parameters
from crwn.models import build, describe, fingerprint, load_backbone
from crwn.training.features import encoded


def small(seed: int = 0) -> ImageBackbone:
    torch.manual_seed(seed)
    return ImageBackbone(nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU()), name="small", size=12)


def coloured(count: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Noise images that are red, green or blue."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, count)
    x = random.integers(0, 128, (count, 3, 20, 20)).astype(np.uint8)
    x[np.arange(count), y] += 100
    return x, [["red", "green", "blue"][label] for label in y]


def test_logits_are_the_formula() -> None:
    model = BackboneNet(small(), 4, seed=3, units=32)
    x = torch.randn(5, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    f = model.backbone(x).double()
    f = f / (f.square().mean(dim=1, keepdim=True) + 1e-6).sqrt()
    assert model.expansion.frozen is not None
    h = (f @ model.expansion.frozen.weight.double().T).clamp_min(0)
    expected = model.decoder.alpha * ((h * model.decoder.v) @ model.decoder.frozen.dense().double().T)
    assert torch.allclose(model(x).double(), expected, atol=1e-4)
    assert learned_parameters(model) == 33
    assert learned_parameters(BackboneNet(small(), 4, seed=3, units=0)) == 17


def test_the_head_takes_cached_features_and_gives_the_same_logits() -> None:
    model = BackboneNet(small(), 4, seed=3, units=32)
    x = torch.randn(5, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    head, features = encoded(model, crwn.Rows(x))
    assert torch.allclose(head(features.inputs(slice(None))), model(x), atol=1e-6)


def test_a_named_backbone_is_described_by_its_name_and_its_weights() -> None:
    model = BackboneNet("efficientnet-lite0", 5, seed=1, size=32, units=64)
    record = describe(model)
    assert record["config"]["backbone"] == "efficientnet-lite0"
    assert record["config"]["weights"] == load_backbone("efficientnet-lite0", size=32).weights
    again = build(record)
    assert fingerprint(again) == fingerprint(model)
    record["config"]["weights"] = "0" * 64
    with pytest.raises(ModelError, match=r"weights of backbone efficientnet-lite0 have changed: .* 000000000000"):
        build(record)


@pytest.mark.parametrize("method", ["gradient", "exact"])
def test_tasks_of_images_are_learned_kept_and_loaded(tmp_path: Path, method: str) -> None:
    x, y = coloured(120)
    settings: dict[str, object] = {} if method == "exact" else {"batches": 60}
    with crwn.Learner(
        BackboneNet(small(), 3, seed=0, gains=2, input_shape=(3, 20, 20)), bank=tmp_path / "m"
    ) as learner:
        learner.learn("colour", x, y, progress=False, method=method, **settings)  # type: ignore[arg-type]
        learner.learn("again", x[:80], y[:80], progress=False, method=method, **settings)  # type: ignore[arg-type]
        fresh, labels = coloured(60, seed=9)
        assert learner.score(fresh, labels, task="colour") > 0.9
        expected = learner.predict_proba(fresh, task="colour")
        mixed = learner.predict(fresh[:4], task=["colour", "again", "colour", "again"])
        assert mixed.tolist()[0] == learner.predict(fresh[:1], task="colour")[0]
    with pytest.raises(ModelError, match="belongs to a custom module"):
        crwn.Learner.load(tmp_path / "m")
    same = BackboneNet(small(), 3, seed=0, gains=2, input_shape=(3, 20, 20))
    with crwn.Learner.load(tmp_path / "m", model=same) as learner:
        assert np.allclose(learner.predict_proba(fresh, task="colour"), expected, atol=1e-6)
    other = BackboneNet(small(1), 3, seed=0, gains=2, input_shape=(3, 20, 20))
    with pytest.raises(ModelError, match="was made with model"):
        crwn.Learner.load(tmp_path / "m", model=other)


def test_images_of_numbers_go_from_0_to_1() -> None:
    x, y = coloured(120)
    learner = crwn.Learner(BackboneNet(small(), 3, seed=0, gains=2, input_shape=(3, 20, 20)))
    learner.learn("bytes", x, y, progress=False, method="exact")
    learner.learn("floats", x.astype(np.float32) / 255, y, progress=False, method="exact")
    a = learner.predict_proba(x, task="bytes")
    b = learner.predict_proba(x.astype(np.float32) / 255, task="floats")
    assert np.allclose(a, b, atol=2e-3)
    with pytest.raises(DataError, match=r"go from 0 to 2\d\d, a backbone takes 0 to 1: divide them by 255"):
        learner.learn("wrong", x.astype(np.float32), y, progress=False)


def test_impossible_settings() -> None:
    with pytest.raises(ConfigError, match=r"shape \(1 or 3, height, width\), got \(4, 8, 8\)"):
        BackboneNet(small(), 3, seed=0, input_shape=(4, 8, 8))
    with pytest.raises(ConfigError, match="this one computes with 12"):
        BackboneNet(small(), 3, seed=0, size=32)


def test_a_mirror_image_is_a_copy_that_is_learned() -> None:
    model = BackboneNet(small(), 3, seed=0, units=8)
    x: Tensor = torch.randn(2, 3, 12, 12)
    assert model.copies == 2
    assert torch.equal(model.encode_copy(x, 1), model.encode(x.flip(-1)))
    assert BackboneNet(small(), 3, seed=0, units=8, mirror=False).copies == 1


@pytest.mark.parametrize(("count", "mirror", "least"), [(20, True, 0.32), (400, False, 0.016)])
def test_the_ridge_of_few_images_is_large(count: int, mirror: bool, least: float) -> None:
    """Generalized cross-validation takes mirror images for new rows, and no ridge where features outnumber them."""
    x, y = coloured(count)
    learner = crwn.Learner(BackboneNet(small(), 3, seed=0, gains=2, mirror=mirror, input_shape=(3, 20, 20)))
    facts = learner.learn("colour", x, y, method="exact", progress=False).info.exact
    assert facts is not None
    assert facts["ridge"] >= least * 0.999
    given = learner.learn("given", x, y, method="exact", ridge=1e-3, progress=False).info.exact
    assert given is not None
    assert given["ridge"] == 1e-3
