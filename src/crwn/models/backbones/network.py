"""Contexts on a backbone: its features are computed once for all tasks, and a task modulates the head on them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from torch import Tensor

from crwn.errors import ConfigError, ModelError
from crwn.layers import ModulatedLinear
from crwn.models.backbones.head import PRIOR_ROWS, Expansion, FeatureHead
from crwn.models.backbones.image import ImageBackbone
from crwn.models.backbones.names import load_backbone
from crwn.models.encoded import EncodedNetwork


class BackboneNet(EncodedNetwork):
    """`f = backbone(x)`, `h = f / |f|` once or several times, `logits = R (alpha * v ⊙ h)`: a task learns v and alpha.

    The backbone's weights are stored nowhere: a model folder has its name and the checksum of its weights, and refuses
    other weights. R comes from the seed.

    Args:
        backbone: a name that `load_backbone` knows, or an `ImageBackbone`.
        classes: outputs.
        seed: determines R and the context every task starts from.
        input_shape: `(channels, height, width)` of the images, 1 or 3 channels; the backbone resizes them. By default
            three channels of the backbone's own size.
        size: height and width that the backbone computes with; 96 by default. Only with a name.
        gains: how many gains v a task learns for every feature: with one less than its classes, a task can learn any
            linear classifier of the features.
        units: take so many frozen random units `relu(W f / |f|)` for h instead; 0 for none.
        mirror: a task learns every training image and its mirror image.
        weights: the checksum that the backbone's weights must have.
        modulation, start, start_scale: as for NeuroModNet.

    Raises:
        ConfigError: a setting is impossible.
        MissingExtraError: the packages of the backbone are not installed.
        ModelError: the backbone's weights are others than `weights`.
    """

    kind = "backbone"
    rowwise = True
    suggested_rate = 0.02

    def __init__(
        self,
        backbone: str | ImageBackbone = "efficientnet-lite0",
        classes: int = 10,
        *,
        seed: int,
        input_shape: Sequence[int] | None = None,
        size: int | None = None,
        gains: int = 1,
        units: int = 0,
        mirror: bool = True,
        weights: str | None = None,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        super().__init__()
        found = backbone
        if isinstance(found, str):
            found = load_backbone(found, **({} if size is None else {"size": index(size)}))
        elif size is not None:
            raise ConfigError(f"size ({size}) is for a backbone by name: this one computes with {found.size}")
        if weights is not None and weights != found.weights:
            raise ModelError(
                f"the weights of backbone {found.name} have changed: the model was made with {weights[:12]}..., "
                f"here they are {found.weights[:12]}...; install the version of its package that was used then"
            )
        self.rebuildable = isinstance(backbone, str)
        self.backbone = found
        self.classes, self.mirror = index(classes), bool(mirror)
        self.input_shape = _checked_shape(input_shape or (3, found.size, found.size))
        channels = self.input_shape[0]
        self.byte_scaling = found.scaling(channels, 255.0)
        self.float_scaling = found.scaling(channels, 1.0)
        if gains < 1 or units < 0 or (gains > 1 and units):
            raise ConfigError(f"gains must be at least 1, and 1 with units, got gains {gains} and units {units}")
        self.config = {
            "backbone": found.name,
            "classes": self.classes,
            "seed": index(seed),
            "input_shape": list(self.input_shape),
            "size": found.size,
            "gains": index(gains),
            "units": index(units),
            "mirror": self.mirror,
            "weights": found.weights,
            "modulation": modulation,
            "start": start,
            "start_scale": float(start_scale),
        }
        self.expansion = Expansion(found.features, gains=index(gains), units=index(units), seed=index(seed))
        self.decoder = ModulatedLinear(
            self.expansion.out_features,
            self.classes,
            seed=index(seed),
            name="decoder",
            modulation=modulation,
            start=start,
            start_scale=start_scale,
        )

    @property
    def record(self) -> dict[str, Any]:
        return {"kind": self.kind if self.rebuildable else "own", "config": self.config}

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config}

    @property
    def features(self) -> int:
        return self.backbone.features

    @property
    def head(self) -> FeatureHead:
        shape = {"suggested_rate": self.suggested_rate, "prior_rows": self.prior_rows}
        return FeatureHead(self.expansion, self.decoder, self.features, **shape)

    @property
    def prior_rows(self) -> float:
        """See `PRIOR_ROWS`; mirror images are hardly other rows."""
        return PRIOR_ROWS * self.expansion.out_features * self.copies

    @property
    def encoder_fingerprint(self) -> str:
        return self.backbone.fingerprint

    @property
    def copies(self) -> int:
        return 2 if self.mirror else 1

    def encode(self, x: Tensor) -> Tensor:
        """Features of the backbone `[..., features]` for prepared images."""
        features: Tensor = self.backbone(x)
        return features

    def encode_copy(self, x: Tensor, number: int) -> Tensor:
        return self.encode(x.flip(-1) if number else x)

    def hidden(self, x: Tensor) -> Tensor:
        out: Tensor = self.expansion(self.encode(x))
        return out


def _checked_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
        raise ConfigError(f"images for a backbone have the shape (1 or 3, height, width), got {tuple(shape)}")
    channels, height, width = (index(length) for length in shape)
    return channels, height, width
