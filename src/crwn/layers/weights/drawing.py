"""Random values made from a seed and a name, the same with every version of torch and on every machine.

All of them start from the integers of a Philox stream, which depend on neither the version of torch nor the
instruction set of the machine. Fingerprints are computed from those integers.
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


def _stream(name: str) -> np.random.Philox:
    """The stream of random integers of this name."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8"))


def integers(count: int, *, seed: int, name: str, bits: int = 16) -> npt.NDArray[Any]:
    """`count` uniform unsigned integers of 8, 16 or 32 bits that depend on seed and name alone."""
    raw = _stream(f"crwn:{seed}:{name}").random_raw(-(-count * bits // 64)).astype("<u8", copy=False)
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


def named_generator(*key: object) -> np.random.Generator:
    """A random generator that depends on these names and numbers alone, in any process and on any machine."""
    return np.random.Generator(_stream("\x1f".join(str(part) for part in key)))
