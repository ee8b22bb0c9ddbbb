"""Models of torchvision, transformers and timm as image backbones, with random weights: nothing is downloaded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crwn import BackboneNet, DeepBackboneNet, ImageBackbone, Learner
from crwn.integrations.torchvision_wheel import import_torchvision

with suppress(ImportError):
    import_torchvision()


def torchvision_resnet() -> nn.Module:
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    from torchvision.models import resnet18

    model = resnet18(weights=None)
    model.fc = nn.Identity()
    found: nn.Module = model
    return found


def transformers_vit() -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    found: nn.Module = transformers.ViTModel(
        transformers.ViTConfig(image_size=32, patch_size=8, **sizes), add_pooling_layer=False
    )
    return found


def transformers_resnet() -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    found: nn.Module = transformers.ResNetModel(config)
    return found


def timm_resnet() -> nn.Module:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    found: nn.Module = timm.create_model("resnet10t", pretrained=False, num_classes=0)
    return found


MAKERS: dict[str, tuple[Any, int]] = {
    "torchvision resnet18": (torchvision_resnet, 512),
    "transformers ViT": (transformers_vit, 24),
    "transformers ResNet": (transformers_resnet, 12),
    "timm resnet10t": (timm_resnet, 512),
}


def colours(count: int = 60) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.arange(count) % 3
    x = random.integers(0, 60, (count, 3, 32, 32)).astype(np.uint8)
    x[np.arange(count), y] += 150
    return x, np.array(["red", "green", "blue"])[y]


@pytest.mark.parametrize("name", MAKERS)
def test_a_model_of_a_library_is_a_backbone(name: str, tmp_path: Path) -> None:
    make, features = MAKERS[name]
    torch.manual_seed(0)
    module = make()
    backbone = ImageBackbone(module, name=name, size=32)
    assert backbone.features == features
    assert list(backbone.parameters()) == []
    x, y = colours()
    model = BackboneNet(backbone, 3, seed=0, gains=2, mirror=False)
    with Learner(model, bank=tmp_path / "m.crwn") as learner:
        learner.learn("colour", x, y, method="exact", progress=False)
        assert learner.score(x, y, "colour") > 0.9
        expected = learner.logits(x[:3], "colour")[0]
    again = BackboneNet(ImageBackbone(module, name=name, size=32), 3, seed=0, gains=2, mirror=False)
    with Learner.load(tmp_path / "m.crwn", model=again) as loaded:
        torch.testing.assert_close(loaded.logits(x[:3], "colour")[0], expected)


@pytest.mark.parametrize("name", ["transformers ViT", "transformers ResNet"])
def test_its_layers_can_be_modulated(name: str) -> None:
    torch.manual_seed(0)
    backbone = ImageBackbone(MAKERS[name][0](), name=name, size=32)
    x, y = colours(30)
    learner = Learner(DeepBackboneNet(backbone, 3, seed=0, depth="all", mirror=False))
    learner.learn("colour", x, y, method="exact", progress=False)
    learner.learn("colour", x, y, resume=True, epochs=1, progress=False)
    assert learner.score(x, y, "colour") > 0.6
