"""What is packed comes out as it went in, and large tensors travel once."""

from __future__ import annotations

from typing import Any

import torch

from crwn.data.dataset import Rows
from crwn.training.engines.packing import Packer, unpack


def test_shared_tensors_are_sent_once() -> None:
    sent: list[Any] = []

    def put(array: Any) -> Any:
        sent.append(array)
        return array

    x = torch.arange(2**20, dtype=torch.float32).view(1024, 1024)
    packer = Packer(put)
    pieces = [Rows(x, torch.arange(8), index=torch.arange(8) * i) for i in range(5)]
    packed = [packer.pack(piece) for piece in pieces]
    assert len(sent) == 1
    assert all(len(one.data) < 10_000 for one in packed)
    for piece, one in zip(pieces, packed, strict=True):
        back = unpack(one.data, one.large)
        torch.testing.assert_close(back.raw(slice(None)), piece.raw(slice(None)), rtol=0, atol=0)


def test_parts_of_one_tensor_are_told_apart() -> None:
    x = torch.randn(2048, 512)
    packed = Packer(lambda array: array.copy()).pack([x, x[:1024], x[1024:], x.T])
    for back, part in zip(unpack(packed.data, packed.large), [x, x[:1024], x[1024:], x.T], strict=True):
        torch.testing.assert_close(back, part, rtol=0, atol=0)


def test_functions_of_ones_own_travel_too() -> None:
    packed = Packer(lambda array: array).pack(lambda value: value + 1)
    assert unpack(packed.data, packed.large)(1) == 2
