"""A frozen encoder called on any number of leading dimensions: no gradient, and stacked tasks are more rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from crwn.layers.functional import WithoutGradient

Encode = Callable[[Tensor], Tensor]


def frozen_call(encode: Encode, x: Tensor, *, dims: int) -> Tensor:
    """`encode` applied to `[..., *row]`, where a row has `dims` dimensions: features `[..., features]`.

    Args:
        encode: takes `[rows, *row]` and returns `[rows, features]`.

    >>> import torch
    >>> frozen_call(lambda images: images.flatten(1), torch.zeros(2, 5, 3, 4, 4), dims=3).shape
    torch.Size([2, 5, 48])
    """
    out: Tensor = _FrozenCall.apply(x, encode, dims)  # type: ignore[no-untyped-call]
    return out


class _FrozenCall(WithoutGradient):
    @staticmethod
    def forward(x: Tensor, encode: Encode, dims: int) -> Tensor:
        leading = x.shape[:-dims]
        features = encode(x.reshape(-1, *x.shape[-dims:]))
        return features.view(*leading, features.shape[-1])

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None, None], x: Tensor, encode: Encode, dims: int
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        return frozen_call(encode, x.movedim(in_dims[0], 0), dims=dims), 0
