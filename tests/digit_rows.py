"""Types of the data that tests learn from, and tasks made of handwritten digits."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from crwn.layers.weights import named_generator

Array = npt.NDArray[Any]
Data = tuple[Array, Array]  # rows, labels
Tensors = tuple[Tensor, Tensor]  # rows, labels


def permuted(data: Data, k: int, rows: int = 128) -> Data:
    """The first rows with their 64 pixels in an order of task k's own."""
    order = named_generator("pixels", k).permutation(64)
    return data[0][:rows, order], data[1][:rows].copy()


def same_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether both hold the same names and the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
