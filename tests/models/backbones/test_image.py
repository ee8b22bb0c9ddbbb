"""ImageBackbone: preprocessing, freezing, fingerprints, stacks, and modules that are no backbones."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from crwn.errors import ConfigError, DataError, ModelError
from crwn.models import ImageBackbone


def small(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.ReLU())


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_features_are_the_averaged_maps_of_the_resized_image() -> None:
    module = small().eval()
    backbone = ImageBackbone(module, size=12)
    x = images(40, 3, 20, 31)
    resized = F.interpolate(x, size=(12, 12), mode="bilinear", antialias=True)
    with torch.no_grad():
        expected = module(resized).mean(dim=(2, 3))
    assert torch.allclose(backbone(x), expected, atol=1e-5)
    assert backbone.features == 5


def test_a_grey_image_is_one_of_three_equal_channels() -> None:
    backbone = ImageBackbone(small(), size=12)
    grey = images(2, 1, 12, 12)
    assert torch.equal(backbone(grey), backbone(grey.expand(-1, 3, -1, -1)))


def test_nothing_is_learned_saved_or_changed_by_use() -> None:
    module = small()
    backbone = ImageBackbone(module, size=12).train()
    assert list(backbone.parameters()) == []
    assert backbone.state_dict() == {}
    x = images(4, 3, 12, 12).requires_grad_()
    first = backbone(x)
    assert not first.requires_grad
    assert torch.equal(first, backbone(x))
    assert all(parameter.requires_grad for parameter in module.parameters())  # the user's own stays as it was
    with torch.no_grad():
        next(module.parameters()).zero_()
    assert torch.equal(first, backbone(x))


def test_stacked_tasks_are_more_images() -> None:
    backbone = ImageBackbone(small(), size=12)
    x = images(3, 4, 3, 12, 12)
    expected = torch.stack([backbone(one) for one in x])
    assert torch.allclose(backbone(x), expected, atol=1e-6)
    assert torch.allclose(vmap(backbone)(x), expected, atol=1e-6)


def test_the_fingerprint_is_of_weights_and_preprocessing() -> None:
    first = ImageBackbone(small(), size=12)
    assert ImageBackbone(small(), size=12, name="other").fingerprint == first.fingerprint
    assert ImageBackbone(small(1), size=12).fingerprint != first.fingerprint
    for change in ({"size": 16}, {"mean": 0.4}, {"std": (0.5, 0.5, 0.4)}):
        assert ImageBackbone(small(), **({"size": 12} | change)).fingerprint != first.fingerprint
    changed = copy.deepcopy(small())
    dict(changed.named_buffers())["1.running_mean"].add_(1e-6)
    assert ImageBackbone(changed, size=12).weights != first.weights


def test_scalings_are_per_channel_where_channels_differ() -> None:
    same = ImageBackbone(small(), size=12, mean=0.5, std=0.25)
    assert same.scaling(3, 255.0) == (127.5, 63.75)
    other = ImageBackbone(small(), size=12, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    assert other.scaling(3, 1.0) == ((0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
    mean, std = other.scaling(1, 1.0)
    assert mean == pytest.approx(0.5)
    assert std == pytest.approx(0.7 / 3)


class TwoOutputs(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def test_what_is_no_backbone_is_refused_in_a_line() -> None:
    with pytest.raises(ModelError, match="cannot take images of 3 x 96 x 96"):
        ImageBackbone(nn.Linear(10, 3))
    with pytest.raises(ModelError, match=r"TwoOutputs .*tuple"):
        ImageBackbone(TwoOutputs())
    with pytest.raises(ModelError, match=r"returns shape \(2, 3, 96\)"):
        ImageBackbone(
            nn.Sequential(nn.Flatten(2), nn.Unflatten(2, (96, 96)), nn.AdaptiveAvgPool2d((96, 1)), nn.Flatten(2))
        )
    with pytest.raises(ConfigError, match="at least 8 x 8"):
        ImageBackbone(small(), size=4)
    with pytest.raises(ConfigError, match="mean has 2 values"):
        ImageBackbone(small(), mean=(0.1, 0.2))
    with pytest.raises(DataError, match=r"got \(4, 12, 12\)"):
        ImageBackbone(small(), size=12)(images(2, 4, 12, 12))
