"""Contexts inside a backbone: its last blocks or all of its layers are modulated, and the head on its features."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import ModulatedLinear
from crwn.models.backbones.freezing import thawed_copy
from crwn.models.backbones.head import Expansion
from crwn.models.backbones.image import AT_ONCE, ImageBackbone, features_of
from crwn.models.backbones.network import BackboneNet
from crwn.models.convert import neuromodulate
from crwn.models.frozen_call import frozen_call
from crwn.models.network import Network
from crwn.models.tied import functional_call_tied

DEPTHS = ("last", "all")
BLOCKS = 2  # the last convolution and the block before it, of EfficientNet-Lite0


class DeepBackboneNet(BackboneNet):
    """A backbone whose last blocks, or all layers, a task modulates: weights R become `alpha * R ⊙ v`, from v = 1.

    What lies before the modulated blocks is computed once for an image, as the features of `BackboneNet` are. With
    `depth="all"` nothing is, and every step computes the whole backbone.

    Args:
        depth: "last" modulates the last `blocks` parts of the backbone that have weights, "all" every layer.
        blocks: how many parts "last" modulates.
        others: as for `BackboneNet`.

    Raises:
        ConfigError: a setting is impossible, or the backbone is no sequence of so many blocks.

    >>> from torch import nn
    >>> module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3))
    >>> model = DeepBackboneNet(ImageBackbone(module, size=16), 2, seed=0, depth="last", blocks=2)
    >>> model.features, model(torch.zeros(5, 3, 16, 16)).shape  # maps of 4 x 14 x 14 before the second convolution
    (784, torch.Size([5, 2]))
    """

    kind = "deep-backbone"
    rowwise = False
    merges_completely = False
    suggested_rate = 0.003

    def __init__(
        self,
        backbone: str | ImageBackbone = "efficientnet-lite0",
        classes: int = 10,
        *,
        seed: int,
        depth: str = "last",
        blocks: int = BLOCKS,
        **others: Any,
    ) -> None:
        super().__init__(backbone, classes, seed=seed, **others)
        if depth not in DEPTHS:
            raise ConfigError(f'depth cannot be "{depth}": choose one of {", ".join(DEPTHS)}, or BackboneNet')
        cut = 0 if depth == "all" else _cut(self.backbone, blocks)
        parts = list(self.backbone.module.children())
        self.front_parts = cut
        tail = self.backbone.module if depth == "all" else nn.Sequential(*parts[cut:])
        modulation = str(self.config["modulation"])
        self.tail = neuromodulate(thawed_copy(tail), seed=seed, weights="keep", modulation=modulation)
        _leave_out_of_state(self.tail)
        self._modules["decoder"] = self._modules.pop("decoder")  # the last layer, after those of the backbone
        self.map_shape = tuple(self._maps(torch.zeros(1, *self.input_shape)).shape[1:])
        self.config |= {"depth": depth, "blocks": blocks}

    @property
    def features(self) -> int:
        """The length of what is computed once for an image: maps before the modulated blocks, or its pixels."""
        return math.prod(self.map_shape)

    @property
    def head(self) -> Network:  # type: ignore[override]
        made = DeepHead(self.tail, self.expansion, self.decoder, self.map_shape, self._size, self.suggested_rate)
        made.prior_rows = self.prior_rows
        return made

    @property
    def encoder_fingerprint(self) -> str:
        before = f"{self.backbone.fingerprint}:before part {self.front_parts}:{self.input_shape}"
        return hashlib.sha256(before.encode()).hexdigest()

    @property
    def _size(self) -> ImageBackbone | None:
        """What resizes the images that the head takes; None where it takes maps."""
        return None if self.front_parts else self.backbone

    def encode(self, x: Tensor) -> Tensor:
        """Maps or pixels `[..., features]` of prepared images."""
        return frozen_call(self._flat, x, dims=3)

    @torch.no_grad()
    def _flat(self, x: Tensor) -> Tensor:
        at_once = AT_ONCE * torch.get_num_threads()
        parts = [self._maps(some).flatten(1) for some in torch.split(x, at_once)] if len(x) else []
        return torch.cat(parts) if parts else x.new_empty(0, self.features)

    @torch.no_grad()
    def _maps(self, x: Tensor) -> Tensor:
        if not self.front_parts:
            return x
        x = self.backbone.resized(x).contiguous(memory_format=torch.channels_last)
        for part in list(self.backbone.module.children())[: self.front_parts]:
            x = part(x)
        return x

    def backbone_features(self, maps: Tensor) -> Tensor:
        """Features of the backbone for what `encode` returns, with the context that this network holds."""
        return _computed(self.tail, maps, self.map_shape, self._size)

    def hidden(self, x: Tensor) -> Tensor:
        out: Tensor = self.expansion(self.backbone_features(self.encode(x)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.decoder(self.hidden(x))
        return out

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return functional_call_tied(self, tensors, x)


class DeepHead(Network):
    """Logits of the maps before the modulated blocks of a backbone. It shares the layers of its network."""

    kind = "deep-head"
    rebuildable = False  # it is sent to workers whole
    merges_completely = False
    prior_rows: float

    def __init__(
        self,
        tail: nn.Module,
        expansion: Expansion,
        decoder: ModulatedLinear,
        shape: Sequence[int],
        backbone: ImageBackbone | None,
        suggested_rate: float,
    ) -> None:
        super().__init__()
        self.tail, self.expansion, self.decoder = tail, expansion, decoder
        self.map_shape, self.suggested_rate = tuple(shape), suggested_rate
        self._resizer = [] if backbone is None else [backbone]  # in a list: not a part of this module
        self.classes = decoder.frozen.out_features
        self.input_shape = (math.prod(shape),)
        self.config = {"maps": list(shape), "classes": self.classes}

    def forward(self, maps: Tensor) -> Tensor:
        size = self._resizer[0] if self._resizer else None
        out: Tensor = self.decoder(self.expansion(_computed(self.tail, maps, self.map_shape, size)))
        return out


def _computed(tail: nn.Module, maps: Tensor, shape: Sequence[int], backbone: ImageBackbone | None) -> Tensor:
    """Features `[..., features]` of flat maps or images `[..., length]`."""
    x = maps.float().reshape(-1, *shape)
    features: Tensor = features_of(tail(x if backbone is None else backbone.resized(x)))
    return features.reshape(*maps.shape[:-1], features.shape[-1])


def _cut(backbone: ImageBackbone, blocks: int) -> int:
    """The position of the part from which on a backbone is modulated."""
    parts = list(backbone.module.children()) if isinstance(backbone.module, nn.Sequential) else []
    weighty = [at for at, part in enumerate(parts) if any(True for _ in part.buffers())]
    if isinstance(blocks, bool) or not isinstance(blocks, int) or not 1 <= blocks < len(weighty):
        raise ConfigError(
            f"{backbone.name} has {len(weighty)} blocks in a row, depth last modulates {blocks} of them: "
            f"give blocks from 1 to {max(1, len(weighty) - 1)}, or depth all"
        )
    return weighty[-blocks]


def _leave_out_of_state(module: nn.Module) -> None:
    """Frozen values are in no state dict: they are those of the backbone, which is installed."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            if not parameter.requires_grad:
                delattr(part, name)
                part.register_buffer(name, parameter.detach(), persistent=False)
        part._non_persistent_buffers_set.update(part._buffers)
