"""Dense layers against their formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.methods.dense import DenseConv2d, DenseLinear, DenseOptions, dense_network
from crwn.scenarios import Scenario


def test_linear() -> None:
    layer = DenseLinear(600, 300, seed=0, name="a")
    x = torch.randn(4, 600, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), torch.einsum("oi,bi->bo", layer.weight, x), rtol=1e-4, atol=1e-4)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert float(layer.weight.detach().var()) == pytest.approx(2 / 600, rel=0.02)


def test_conv2d() -> None:
    layer = DenseConv2d((40, 30, 3, 3), seed=0, name="a", stride=2, padding=1)
    x = torch.randn(2, 30, 6, 6, generator=torch.Generator().manual_seed(0))
    patches = F.unfold(x, 3, padding=1, stride=2)  # [batch, in * height * width, places]
    expected = torch.einsum("oi,bip->bop", layer.weight.flatten(1), patches).view(2, 40, 3, 3)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)
    assert float(layer.weight.detach().var()) == pytest.approx(1 / (3 * 270), rel=0.04)  # of torch's own convolutions
    theirs = torch.nn.Conv2d(30, 40, 3, bias=False).weight
    assert float(layer.weight.detach().abs().max()) == pytest.approx(float(theirs.detach().abs().max()), rel=0.01)
    large = DenseConv2d((40, 30, 3, 3), seed=0, name="a", start="kaiming")
    assert float(large.weight.detach().var()) == pytest.approx(2 / 270, rel=0.04)


def test_a_head_is_linear() -> None:
    layer = DenseConv2d((3, 8), seed=0, name="head")
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layer(x), x @ layer.weight.T)


def test_the_network_learns_everything(small: Scenario, stripes: Scenario) -> None:
    flat = dense_network(small, "5", seed=0, method="stl", options=DenseOptions())
    assert {name for name, _ in flat.named_parameters()} == {f"layers.{i}.weight" for i in range(3)}
    images = dict(dense_network(stripes, "1d", seed=0, method="stl", options=DenseOptions()).named_parameters())
    assert {
        "stem.weight",
        "stem_norm.weight",
        "stem_norm.bias",
        "blocks.7.conv2.weight",
        "head.weight",
    } <= images.keys()


@pytest.mark.parametrize("name", ["stl", "mtl", "finetune", "ewc", "replay"])
def test_the_start_is_a_setting_of_images(name: str, small: Scenario, stripes: Scenario) -> None:
    usual, _ = make_method(name, stripes, size="1d", seed=0)
    large, _ = make_method(name, stripes, size="1d", seed=0, settings={"conv_start": "kaiming"})
    deviations = [float(one.model.get_parameter("stem.weight").detach().std()) for one in (large, usual)]
    assert deviations[0] / deviations[1] == pytest.approx(6**0.5, rel=0.15)
    with pytest.raises(ConfigError, match="conv_start is for images"):
        make_method(name, small, size="5", seed=0, settings={"conv_start": "torch"})
