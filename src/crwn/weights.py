"""Frozen weights made from a seed: dense Gaussian, patches of an image, Hadamard, and the fly's sparse binary encoder.

All of them start from integers of a Philox stream, which depend on neither torch's version nor the machine's
instruction set; the fingerprint is taken of those integers.
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
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.products import modulated, modulated_narrow, one_for_all

KINDS = ("gaussian", "hadamard", "patches")
# Smallest and largest side of a patch, in pixels: the best of those tried on Rotation-MNIST's held-out images.
PATCH_SIDES = (7, 14)


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


def hadamard_matrix(size: int) -> Tensor:
    """The orthonormal Hadamard matrix of a power of two (Sylvester's construction)."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
    return matrix / math.sqrt(size)


class FrozenWeights(nn.Module):
    """A frozen matrix R `[out, in]` that is made from a seed, applied to rows, and never stored.

    Called with `gain`, it computes `R @ (gain * x)`, the superposition form of the modulation; a gain `[rows, in]`
    gives every row its own. With `spend` the gain's memory may be written over.
    """

    fingerprint: str

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        for label, value in (("in_features", in_features), ("out_features", out_features)):
            if value < 1:
                raise ConfigError(f"{label} must be at least 1, got {value}")
        self.in_features = in_features
        self.out_features = out_features

    @property
    def memory_bytes(self) -> int:
        """Bytes that R takes while the model is in memory."""
        return sum(buffer.nbytes for buffer in self.buffers())

    @property
    def multiplications(self) -> int:
        """Multiplications that one row costs."""
        raise NotImplementedError

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        raise NotImplementedError

    def dense(self) -> Tensor:
        """R as an ordinary matrix `[out, in]`."""
        example = next(self.buffers())
        columns: Tensor = self(torch.eye(self.in_features, device=example.device, dtype=example.dtype))
        return columns.T.contiguous()

    def extra_repr(self) -> str:
        return f"{self.in_features} -> {self.out_features}, {self.memory_bytes:,} bytes in memory"


class Gaussian(FrozenWeights):
    """Dense R ~ N(0, 2 / in_features)."""

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        weight, self.fingerprint = gaussian(
            (out_features, in_features), seed=seed, name=f"gaussian:{name}", std=math.sqrt(2 / in_features)
        )
        self.register_buffer("weight", weight, persistent=False)

    @property
    def multiplications(self) -> int:
        return self.in_features * self.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        many = x.ndim > 1 and x.shape[-2] > 4 * self.out_features
        if gain is not None and many and one_for_all(gain):
            # With few outputs and many rows the modulated matrix is smaller than the modulated rows.
            return modulated_narrow(x, gain, self.weight)
        return F.linear(x, self.weight) if gain is None else modulated(x, gain, self.weight, spend=spend)

    def dense(self) -> Tensor:
        return self.weight.clone()


class Patches(FrozenWeights):
    """Every unit sees one random rectangle of a square image: Gaussian inside, zero outside.

    Sides are uniform in 7..14 pixels and positions uniform in the image; the variance is `2 / pixels inside`.
    """

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        side = math.isqrt(in_features)
        if side * side != in_features or side < PATCH_SIDES[0]:
            raise ConfigError(
                f"patches need square images of at least {PATCH_SIDES[0]} x {PATCH_SIDES[0]} pixels, "
                f'got rows of {in_features} numbers: use "hadamard" or "gaussian"'
            )
        drawn = integers(4 * out_features, seed=seed, name=f"patches:{name}", bits=32)
        inside = _rectangles(drawn.reshape(4, out_features), side)
        values, made = gaussian((out_features, in_features), seed=seed, name=f"patch values:{name}", std=1.0)
        self.fingerprint = hashlib.sha256(made.encode() + drawn.tobytes()).hexdigest()
        scale = np.sqrt(2.0 / inside.sum(axis=1, keepdims=True)).astype(np.float32)
        self.register_buffer("weight", values.mul_(torch.from_numpy(inside * scale)), persistent=False)

    @property
    def multiplications(self) -> int:
        return self.in_features * self.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        return F.linear(x, self.weight) if gain is None else modulated(x, gain, self.weight, spend=spend)

    def dense(self) -> Tensor:
        return self.weight.clone()


def _rectangles(drawn: npt.NDArray[np.uint32], side: int) -> npt.NDArray[np.bool_]:
    """Which pixels of a `side x side` image each rectangle holds, `[rectangles, pixels]`, from four integers each."""
    smallest, largest = PATCH_SIDES[0], min(PATCH_SIDES[1], side)
    shares = drawn.astype(np.float64) / 2**32
    size = np.floor(smallest + shares[:2] * (largest - smallest + 1))  # [2, rectangles]: height and width
    start = np.floor(shares[2:] * (side - size + 1))
    at = np.arange(side)
    inside = (at >= start[..., None]) & (at < (start + size)[..., None])  # [2, rectangles, side]
    whole: npt.NDArray[np.bool_] = inside[0][:, :, None] & inside[1][:, None, :]
    return whole.reshape(len(whole), side * side)


class Hadamard(FrozenWeights):
    """Blocks of `c * H * D_b`: H orthonormal Hadamard of the next power of two n, D_b random signs of block b.

    Inputs are padded with zeros to n; `ceil(out / n)` blocks stand side by side and are cut to `out`;
    `c = sqrt(2 n / in)` gives R's entries the size of the Gaussian's. H is never built: it is the Kronecker product
    of two small Hadamard matrices, three from 4096 on, and a row as a `p x q` matrix X gives `H x = H_p X H_q`.
    """

    signs: Tensor
    left: Tensor
    middle: Tensor | None
    right: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        self.size = 1 << (in_features - 1).bit_length()
        self.blocks = -(-out_features // self.size)
        drawn = integers(self.blocks * in_features, seed=seed, name=f"hadamard:{name}", bits=8) & 1
        self.fingerprint = hashlib.sha256(np.packbits(drawn).tobytes()).hexdigest()
        signs = torch.from_numpy(1.0 - 2.0 * drawn.astype(np.float32)).reshape(self.blocks, in_features)
        self.register_buffer("signs", signs, persistent=False)
        self._folds = _folds(self.size)
        factors = [hadamard_matrix(fold) for fold in self._folds]
        # c goes into one factor, so that the product needs no scaling of its own.
        self.register_buffer("left", factors[0] * math.sqrt(2 * self.size / in_features), persistent=False)
        self.register_buffer("middle", factors[1] if len(factors) == 3 else None, persistent=False)
        self.register_buffer("right", factors[-1], persistent=False)

    @property
    def multiplications(self) -> int:
        return self.blocks * (self.in_features + self.size * sum(self._folds))

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        scale = self.signs if gain is None else self.signs * gain.unsqueeze(-2)  # [blocks, in]
        spread = x.unsqueeze(-2) * scale  # [..., blocks, in]
        if self.size > self.in_features:
            spread = F.pad(spread, (0, self.size - self.in_features))
        leading = spread.shape[:-1]
        folded = spread.reshape(*leading, *self._folds) @ self.right
        if self.middle is not None:
            folded = (self.middle @ folded).flatten(-2)
        out = (self.left @ folded).reshape(*leading[:-1], self.blocks * self.size)
        return out[..., : self.out_features]


def _folds(size: int) -> tuple[int, ...]:
    """Sizes of the factors: two, or three from 4096 on, where fewer multiplications outweigh one more pass.

    >>> _folds(1024), _folds(2048), _folds(4096), _folds(16384)
    ((32, 32), (32, 64), (16, 16, 16), (32, 32, 16))
    """
    power = size.bit_length() - 1
    if size < 4096:
        return 1 << power // 2, 1 << power - power // 2
    return 1 << (power + 2) // 3, 1 << (power + 1) // 3, 1 << power // 3


class _BagSum(torch.autograd.Function):
    """Sums of chosen inputs per hidden node, without gradient; stacked tasks are folded into rows."""

    @staticmethod
    def forward(x: Tensor, chosen: Tensor) -> Tensor:
        leading = x.shape[:-1]
        columns = x.reshape(-1, x.shape[-1]).T.contiguous()  # [in, rows]: a node's sum adds whole rows of memory
        sums = F.embedding_bag(chosen, columns, mode="sum")  # [hidden, rows]
        return sums.T.reshape(*leading, len(chosen))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, chosen: Tensor) -> tuple[Tensor, int]:
        x_dim, chosen_dim = in_dims
        if chosen_dim is not None:
            raise ConfigError("the encoder's connections are frozen: they cannot differ between stacked tasks")
        assert x_dim is not None
        return _bag_sum(x.movedim(x_dim, 0), chosen), 0


def _bag_sum(x: Tensor, chosen: Tensor) -> Tensor:
    out: Tensor = _BagSum.apply(x, chosen)  # type: ignore[no-untyped-call]
    return out


class SparseBinary(FrozenWeights):
    """The fly's encoder: every hidden node adds `inputs_per_node` distinct inputs chosen at random."""

    chosen: Tensor

    def __init__(
        self, in_features: int, out_features: int, *, seed: int, name: str = "", inputs_per_node: int = 7
    ) -> None:
        super().__init__(in_features, out_features)
        if not 1 <= inputs_per_node <= in_features:
            raise ConfigError(
                f"inputs_per_node must be between 1 and the number of inputs ({in_features}), got {inputs_per_node}"
            )
        self.inputs_per_node = inputs_per_node
        drawn = integers(out_features * inputs_per_node, seed=seed, name=f"sparse:{name}", bits=32)
        chosen = _distinct(drawn.reshape(out_features, inputs_per_node).astype(np.uint64), in_features)
        self.fingerprint = hashlib.sha256(chosen.astype("<i4").tobytes()).hexdigest()
        self.register_buffer("chosen", torch.from_numpy(chosen.astype(np.int32)), persistent=False)

    @property
    def multiplications(self) -> int:
        return self.out_features * self.inputs_per_node

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        return _bag_sum(x if gain is None else x * gain, self.chosen)

    def dense(self) -> Tensor:
        matrix = torch.zeros(self.out_features, self.in_features, device=self.chosen.device)
        return matrix.scatter_(1, self.chosen.long(), 1.0)


def _distinct(drawn: npt.NDArray[np.uint64], high: int) -> npt.NDArray[np.int64]:
    """Rows of distinct integers below `high` (Floyd's sampling, one column at a time for all rows)."""
    rows, count = drawn.shape
    chosen = np.full((rows, count), -1, dtype=np.int64)
    for column in range(count):
        last = high - count + column
        candidate = ((drawn[:, column] * np.uint64(last + 1)) >> np.uint64(32)).astype(np.int64)
        taken = (chosen[:, :column] == candidate[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, candidate)
    return np.sort(chosen, axis=1)


def make(kind: str, in_features: int, out_features: int, *, seed: int, name: str = "") -> FrozenWeights:
    """Frozen weights of a named kind: "gaussian", "hadamard" or "patches"."""
    if kind == "gaussian":
        return Gaussian(in_features, out_features, seed=seed, name=name)
    if kind == "hadamard":
        return Hadamard(in_features, out_features, seed=seed, name=name)
    if kind == "patches":
        return Patches(in_features, out_features, seed=seed, name=name)
    raise ConfigError(f'unknown kind of frozen weights "{kind}": choose one of {", ".join(KINDS)}')
