"""The modulated linear layer that computes a model's outputs, and the features it takes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from crwn.errors import ModelError
from crwn.layers import ModulatedLinear, context_tensors
from crwn.models import network_of
from crwn.models.encoded import DecodedNetwork, DecoderHead

Array = npt.NDArray[np.float64]
CHECKED_ROWS = 4


@dataclass(frozen=True)
class OutputLayer:
    """`outputs = R (gain ⊙ features) + bias`: what a closed form needs to know of a model.

    Args:
        model: the model, in evaluation mode while it is called.
        name: of the layer inside the model.
        layer: the layer.
    """

    model: nn.Module
    name: str
    layer: ModulatedLinear

    @property
    def width(self) -> int:
        """The number of features."""
        return self.layer.frozen.in_features

    @property
    def frozen(self) -> Array:
        """R as a matrix `[outputs, features]`."""
        return self.layer.frozen.dense().cpu().double().numpy()

    @property
    def bias(self) -> Array | None:
        """The layer's frozen bias `[outputs]`, None where it has none."""
        bias = getattr(self.layer, "bias", None)
        return None if bias is None else bias.detach().cpu().double().numpy()

    @property
    def prior_rows(self) -> float:
        """What the ridge is at least, times the number of rows: see `solve`; 0 where the model has no such number."""
        return float(getattr(self.model, "prior_rows", 0.0))

    @torch.no_grad()
    def features(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The inputs `[rows, features]` of the layer for model inputs `x` with this context in the other layers."""
        if isinstance(self.model, DecodedNetwork | DecoderHead) and self.name == "decoder":
            return self.model.hidden(x)
        seen: list[Tensor] = []
        handle = self.layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
        training = self.model.training
        self.model.eval()
        try:
            network_of(self.model).caller()(tensors, x)
        finally:
            handle.remove()
            self.model.train(training)
        (found,) = seen
        return found

    def below(self, tensors: Mapping[str, Tensor]) -> str:
        """A digest of the context of the layers below, which features depend on; empty where there is none."""
        others = {key: value for key, value in tensors.items() if not key.startswith(f"{self.name}.")}
        if not others:
            return ""
        digest = hashlib.sha256()
        for key in sorted(others):
            digest.update(key.encode() + others[key].detach().cpu().float().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    @torch.no_grad()
    def check(self, tensors: Mapping[str, Tensor], x: Tensor) -> None:
        """Raise ModelError unless the model's outputs are those of the layer, nothing added and nothing applied."""
        few = x[:CHECKED_ROWS]
        expected = self.layer(self.features(tensors, few), self.layer.gain_from(tensors, self.name))
        training = self.model.training
        self.model.eval()
        found = network_of(self.model).caller()(tensors, few)
        self.model.train(training)
        if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-3, atol=1e-4):
            raise ModelError(
                f"the outputs of this model are not those of its layer {self.name}: "
                'a closed form needs a modulated linear layer at the end; use method="gradient"'
            )


def output_layer(model: nn.Module) -> OutputLayer:
    """The last modulated linear layer of a model, which must compute its outputs.

    Raises:
        ModelError: there is none, or its context is fixed.
    """
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, ModulatedLinear)]
    if not found:
        raise ModelError(
            f"{type(model).__name__} has no modulated linear layer: a closed form needs one at its end; "
            'use method="gradient"'
        )
    name, layer = found[-1]
    if not any(key.startswith(f"{name}.") for key in context_tensors(model)):
        raise ModelError(f'layer {name} has no context to learn: a closed form needs one; use method="gradient"')
    return OutputLayer(model, name, layer)
