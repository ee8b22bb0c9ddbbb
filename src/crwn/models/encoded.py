"""Networks of two parts: an encoder without a context, whose features are computed once, and a head that learns.

How to get the features of a model and its decoder: `model.encode(x)` returns the features of prepared inputs,
`model.decoder` is the `ModulatedLinear` that takes them (`decoder.frozen.weight` is R, `decoder.v` and `decoder.alpha`
the context), and `model.head` is a network of the decoder alone: features in, logits out, with the context names of
the whole model. With several gains for every feature, both repeat the features before the decoder.
`crwn.training.features.encoded` turns the rows of a task into cached rows of features.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crwn.errors import DataError
from crwn.layers import ModulatedLinear
from crwn.models.network import Network
from crwn.models.row_contexts import RowContexts


class DecoderHead(Network):
    """The modulated decoder alone: logits of features, `y = R (alpha * v ⊙ h)`. It shares the decoder of its model.

    Args:
        gains: how many entries of v every feature has; the decoder takes h so many times.
    """

    kind = "decoder"
    rowwise = True
    rebuildable = False  # it is sent to workers whole: R of a decoder is small

    def __init__(self, decoder: ModulatedLinear, *, suggested_rate: float, gains: int = 1) -> None:
        super().__init__()
        self.decoder = decoder
        self.gains = gains
        self.classes = decoder.frozen.out_features
        self.input_shape = (decoder.frozen.in_features // gains,)
        self.suggested_rate = suggested_rate
        self.config = {"features": self.input_shape[0], "classes": self.classes, "gains": gains}

    def forward(self, h: Tensor) -> Tensor:
        return self.forward_with({}, h)

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        gain = self.decoder.gain_from(tensors, "decoder")
        out: Tensor
        if self.gains == 1:
            out = self.decoder(x, gain)
            return out
        # The weights of a feature's gains are added up instead of repeating the rows: one matrix for all of them.
        if x.shape[-1] != self.input_shape[0]:
            raise DataError(f"rows have {x.shape[-1]} features, this decoder takes {self.input_shape[0]}")
        weight = self.decoder.frozen.dense() * gain  # [..., classes, gains * features]
        folded = weight.view(*weight.shape[:-1], self.gains, -1).sum(dim=-2)
        out = x @ folded.mT
        return out

    def forward_with_contexts(self, contexts: RowContexts, x: Tensor) -> Tensor:
        out: Tensor = self.decoder(self.hidden(x), contexts.gain(self.decoder, "decoder"))
        return out

    def hidden(self, h: Tensor) -> Tensor:
        """What the decoder takes: the features, so many times as each has gains."""
        return repeated(h, self.gains)


def repeated(h: Tensor, gains: int) -> Tensor:
    """Features so many times side by side, `[..., gains * features]`."""
    return h if gains == 1 else torch.cat([h] * gains, dim=-1)


class DecodedNetwork(Network):
    """A network `decoder(encode(x))`: the encoder has no context, the decoder is one modulated layer."""

    decoder: ModulatedLinear

    def encode(self, x: Tensor) -> Tensor:
        """Features of prepared inputs `[..., *input_shape]`, as predictions use them: `[..., features]`."""
        raise NotImplementedError

    def hidden(self, x: Tensor) -> Tensor:
        """What the decoder takes for prepared inputs: the features, where nothing stands between them."""
        return self.encode(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_with({}, x)

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        hidden = self.hidden(x)
        out: Tensor
        if isinstance(self.decoder, ModulatedLinear):
            out = self.decoder(hidden, self.decoder.gain_from(tensors, "decoder"))
        else:  # the ordinary layer that `merge_context` puts in its place
            out = self.decoder(hidden)
        return out

    def forward_with_contexts(self, contexts: RowContexts, x: Tensor) -> Tensor:
        out: Tensor = self.decoder(self.hidden(x), contexts.gain(self.decoder, "decoder"))
        return out


class EncodedNetwork(DecodedNetwork):
    """A network `head(encode(x))` whose encoder is computed once per image instead of once per epoch and task."""

    @property
    def features(self) -> int:
        """The number of features of one input."""
        return self.decoder.frozen.in_features

    @property
    def head(self) -> Network:
        """The network that takes features; it shares the frozen weights, and its context has the same names."""
        return DecoderHead(self.decoder, suggested_rate=self.suggested_rate)

    @property
    def encoder_fingerprint(self) -> str:
        """SHA-256 of what determines the features."""
        raise NotImplementedError

    @property
    def copies(self) -> int:
        """How many changed copies of every training row are learned."""
        return 1

    @property
    def copies_key(self) -> str:
        """What tells these copies from those of another network with the same encoder."""
        return str(self.copies)

    def encode_copy(self, x: Tensor, number: int) -> Tensor:
        """Features of one of the changed copies of training rows, `number` from 0: mirrored, shifted."""
        return self.encode(x)
