"""Networks of two parts: an encoder without a context, whose features are computed once, and a head that learns.

How to get the features of a model and its decoder: `model.encode(x)` returns the features of prepared inputs,
`model.decoder` is the `ModulatedLinear` that takes them (`decoder.frozen.weight` is R, `decoder.v` and `decoder.alpha`
the context), and `model.head` is a network of the decoder alone: features in, logits out, with the context names of
the whole model. `crwn.training.features.encoded` turns the rows of a task into cached rows of features.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from crwn.layers import ModulatedLinear
from crwn.models.network import Network
from crwn.models.row_contexts import RowContexts


class DecoderHead(Network):
    """The modulated decoder alone: logits of features, `y = R (alpha * v ⊙ h)`. It shares the decoder of its model."""

    kind = "decoder"
    rowwise = True
    rebuildable = False  # it is sent to workers whole: R of a decoder is small

    def __init__(self, decoder: ModulatedLinear, *, suggested_rate: float) -> None:
        super().__init__()
        self.decoder = decoder
        self.classes = decoder.frozen.out_features
        self.input_shape = (decoder.frozen.in_features,)
        self.suggested_rate = suggested_rate
        self.config = {"features": decoder.frozen.in_features, "classes": self.classes}

    def forward(self, h: Tensor) -> Tensor:
        return self.forward_with({}, h)

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        out: Tensor = self.decoder(x, self.decoder.gain_from(tensors, "decoder"))
        return out

    def forward_with_contexts(self, contexts: RowContexts, x: Tensor) -> Tensor:
        out: Tensor = self.decoder(x, contexts.gain(self.decoder, "decoder"))
        return out


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

    def encode_copy(self, x: Tensor, number: int) -> Tensor:
        """Features of one of the changed copies of training rows, `number` from 0: mirrored, shifted."""
        return self.encode(x)
