"""Gradients of the loss of single rows with respect to a context, clipped and added up.

A modulated layer computes `y = R (g ⊙ x)` with the gain `g = alpha · v`. For one row the gradient of its gain is
`q = (R^T δ) ⊙ x`, δ being the gradient of y: the elementwise product that a plain step sums over rows anyway. Those of
the context follow from q, `alpha · q` for v and `q · v` for alpha, so that neither is written out for every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ModelError
from crwn.layers import Modulated, ModulatedLinear, context_tensors
from crwn.models import EncodedNetwork, Network, network_of
from crwn.models.encoded import DecodedNetwork, DecoderHead
from crwn.models.row_contexts import RowContexts

BLOCK_NUMBERS = 2**20  # of gradients in memory at once: they stay in the cache
RANDOM_ROWS = 256  # inputs that the length of gradients is measured on


@dataclass(frozen=True)
class _Layer:
    """The gradients of one layer's context for every row; that of v is `alpha * of_gain`."""

    alpha: Tensor
    of_gain: Tensor  # [rows, in]
    of_alpha: Tensor  # [rows]


class RowGradients:
    """Gradients of single rows of a network.

    Args:
        network: a network whose rows do not influence each other.
        classes: of the task, the first outputs.

    Raises:
        ModelError: rows of the network influence each other, as with batch norm.
    """

    def __init__(self, network: nn.Module, classes: int) -> None:
        found = network_of(network)
        if not isinstance(found, Network) or not found.rowwise:
            raise ModelError(
                f"{type(network).__name__} has no gradients of single rows: private learning takes NeuroModNet and "
                "FlyNet without batch norm"
            )
        self.network, self.classes = found, classes
        self.layers = {name: part for name, part in found.named_modules() if isinstance(part, ModulatedLinear)}
        self._scratch = torch.empty(2, 0)

    def usual_length(self, model: nn.Module, shape: Sequence[int]) -> float:
        """The median length of a row's gradient for random inputs and labels, with the model's own context."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(RANDOM_ROWS, *shape, generator=generator)
        y = torch.randint(self.classes, (RANDOM_ROWS,), generator=generator)
        if isinstance(model, EncodedNetwork):
            x = model.encode(x)
        tensors = context_tensors(model)
        found, _ = self._of_layers(tensors, x, y)
        return max(float(self._lengths(found, tensors).median()), 1e-12)

    def clipped_sum(
        self, tensors: Mapping[str, Tensor], x: Tensor, y: Tensor, clip: float
    ) -> tuple[dict[str, Tensor], float]:
        """The sum over rows of their gradients divided by `clip` and clipped to length one, and the mean loss."""
        sums = {name: torch.zeros_like(value) for name, value in tensors.items()}
        total, size = 0.0, max(16, BLOCK_NUMBERS // sum(value.numel() for value in tensors.values()))
        for some, labels in zip(torch.split(x, size), torch.split(y, size), strict=True):
            if not len(some):  # a step that chose no row
                break
            found, loss = self._of_layers(tensors, some, labels)
            factor = self._lengths(found, tensors).clamp_min(clip).reciprocal()  # [rows]
            for name, layer in found.items():
                if f"{name}.v" in sums:
                    sums[f"{name}.v"].add_(layer.alpha * (factor @ layer.of_gain))
                if f"{name}.alpha" in sums:
                    sums[f"{name}.alpha"].add_(factor @ layer.of_alpha)
            total += loss
        return sums, total / max(1, len(x))

    def _lengths(self, found: Mapping[str, _Layer], tensors: Mapping[str, Tensor]) -> Tensor:
        """The length of every row's gradient over all layers, `[rows]`."""
        squares = torch.zeros(len(next(iter(found.values())).of_gain))
        for name, layer in found.items():
            if f"{name}.v" in tensors:
                q = layer.of_gain
                squared = torch.mul(q, q, out=self._like(q, 1))
                # A product with ones, because sums over the slow dimension of a matrix take several times as long.
                squares += layer.alpha.square() * (squared @ torch.ones(q.shape[1]))
            if f"{name}.alpha" in tensors:
                squares += layer.of_alpha.square()
        return squares.sqrt()

    @torch.no_grad()
    def _of_layers(self, tensors: Mapping[str, Tensor], x: Tensor, y: Tensor) -> tuple[dict[str, _Layer], float]:
        """The gradients of single rows by layer, and the sum of the rows' losses."""
        contexts = {
            name: (tensors.get(f"{name}.alpha", layer.alpha), tensors.get(f"{name}.v", layer.v))
            for name, layer in self.layers.items()
        }
        if isinstance(self.network, DecodedNetwork | DecoderHead):
            hidden = self.network.hidden(x) if isinstance(self.network, DecodedNetwork) else x
            only, loss = self._of_decoder(*contexts["decoder"], hidden, y)
            return {"decoder": only}, loss
        each = {name: (alpha * v).expand(len(x), -1).detach().requires_grad_() for name, (alpha, v) in contexts.items()}
        with torch.enable_grad():
            logits = self.network.forward_with_contexts(_RowGains(each), x)
            summed = F.cross_entropy(logits[:, : self.classes], y, reduction="sum")
            found = torch.autograd.grad(summed, list(each.values()))
        layers = {name: _Layer(alpha, q, q @ v) for (name, (alpha, v)), q in zip(contexts.items(), found, strict=True)}
        return layers, float(summed.detach())

    def _of_decoder(self, alpha: Tensor, v: Tensor, h: Tensor, y: Tensor) -> tuple[_Layer, float]:
        """The gradients of the only layer for rows of features h, and the sum of losses."""
        weight = self.layers["decoder"].frozen.dense()[: self.classes]
        unscaled = (weight * v) @ h.T  # [classes, rows]
        logits = alpha * unscaled
        loss = F.cross_entropy(logits.T, y, reduction="sum")
        delta = torch.softmax(logits, dim=0)
        delta[y, torch.arange(len(y))] -= 1
        q = torch.mm(delta.T, weight, out=self._like(h, 0)).mul_(h)
        return _Layer(alpha, q, (delta * unscaled).sum(dim=0)), float(loss)

    def _like(self, h: Tensor, number: int) -> Tensor:
        """One of two tensors laid out as h, in memory that is used again: new memory takes longer than the product."""
        if self._scratch.shape[1] < h.numel():
            self._scratch = torch.empty(2, h.numel())
        return self._scratch[number].as_strided(h.shape, h.stride(), number * self._scratch.shape[1])


class _RowGains(RowContexts):
    """Gains `[rows, in]` by the layer's name, of which a loss can be differentiated."""

    def gain(self, layer: Modulated, name: str) -> Tensor:
        return self[name].clone()
