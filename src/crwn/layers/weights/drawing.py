"""Numbers made from a seed and a name, the same with every version of torch and on every machine.

All of them start from integers of a Philox stream, which depend on neither torch's version nor the machine's
instruction set; fingerprints are taken of those integers.
"""

from __future__ import annotations

import functools
import hashlib
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def integers(count: int, *, seed: int, name: str, bits: int = 16) -> npt.NDArray[Any]:
    """`count` uniform unsigned integers of 8, 16 or 32 bits that depend on seed and name alone."""
    key = np.frombuffer(hashlib.sha256(f"crwn:{seed}:{name}".encode()).digest()[:16], dtype="<u8")
    raw = np.random.Philox(key=key).random_raw(-(-count * bits // 64)).astype("<u8", copy=False)
    return raw.view(f"<u{bits // 8}")[:count]


@functools.cache
def _normal_table() -> npt.NDArray[np.float32]:
    """Inverse CDF of the normal distribution at the middle of 2^16 equal slices, scaled to variance 1."""
    half = np.array([NormalDist().inv_cdf((i + 0.5) / 65536) for i in range(32768)])
    table = np.concatenate([half, -half[::-1]])
    scaled: npt.NDArray[np.float32] = (table / np.sqrt(np.mean(table**2))).astype(np.float32)
    return scaled


def gaussian(shape: tuple[int, ...], *, seed: int, name: str, std: float) -> tuple[Tensor, str]:
    """Gaussian values of this shape, and the SHA-256 of the integers they are made from."""
    drawn = integers(math.prod(shape), seed=seed, name=name)
    values = np.take(_normal_table(), drawn)
    values *= np.float32(std)
    return torch.from_numpy(values.reshape(shape)), hashlib.sha256(drawn.tobytes()).hexdigest()


def uniform(shape: tuple[int, ...], *, seed: int, name: str, bound: float) -> Tensor:
    """Uniform values in (-bound, bound) of this shape."""
    drawn = integers(math.prod(shape), seed=seed, name=name, bits=32)
    values = (drawn.astype(np.float64) + 0.5) / 2**31 - 1.0
    return torch.from_numpy((values * bound).astype(np.float32).reshape(shape))
