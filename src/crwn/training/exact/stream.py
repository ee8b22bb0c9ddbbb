"""A task that learns from a stream: every row is predicted first and then added, and the errors show drift.

Narrow models (`WIDE` features at most) update their context with every call, by a rank-k update of the inverse of the
normal equations. Wider ones collect rows and solve again when a tenth more have come: one row at 10d would move half
a gigabyte of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.training.exact.accumulate import WIDE, accumulate, finite_features
from crwn.training.exact.blas import blas_threads
from crwn.training.exact.output_layer import OutputLayer
from crwn.training.exact.solve import NormalEquations, Solution, solve
from crwn.training.exact.statistics import Statistics

Array = npt.NDArray[np.float64]
COLLECTED = 256  # rows that a wide model collects at least before it solves again
GROWTH = 0.1  # share of new rows after which a wide model solves again
ENOUGH = 30  # rows before errors are compared


@dataclass
class Drift:
    """Drift by the running error (Gama et al., 2004): it rises 3 standard deviations above its lowest."""

    rows: int = 0
    wrong: int = 0
    lowest: float = math.inf
    spread: float = 0.0
    noticed: int | None = None  # the row at which drift was noticed last

    def add(self, wrong: bool) -> bool:
        """Count one row; True where drift is noticed, after which counting starts over."""
        self.rows += 1
        self.wrong += wrong
        rate = self.wrong / self.rows
        spread = math.sqrt(rate * (1 - rate) / self.rows)
        if self.rows < ENOUGH:
            return False
        if rate + spread < self.lowest + self.spread:
            self.lowest, self.spread = rate, spread
        if rate + spread > self.lowest + 3 * max(self.spread, 1e-3):
            self.rows, self.wrong, self.lowest, self.spread = 0, 0, math.inf, 0.0
            return True
        return False


@dataclass
class Stream:
    """The state of one streamed task; rows have no weights.

    Args:
        layer, tensors: the output layer, and the context of the layers below it.
        statistics: sums of all rows that were folded in.
        solution: the context in use.
    """

    layer: OutputLayer
    tensors: Mapping[str, Tensor]
    statistics: Statistics
    solution: Solution
    seen: int = 0
    right: int = 0
    drift: Drift = field(default_factory=Drift)
    drifts: list[int] = field(default_factory=list)
    _waiting: list[Rows] = field(default_factory=list)
    _inverse: Array | None = None
    _solved: int = 0  # rows that the ridge was chosen with

    @property
    def accuracy(self) -> float | None:
        """Prequential accuracy: the share of rows that were predicted right before they were learned."""
        return self.right / self.seen if self.seen else None

    @blas_threads()
    def observe(self, rows: Rows) -> tuple[npt.NDArray[np.int64], bool]:
        """Predict these rows, then learn them; returns the predicted classes, and whether the context was replaced.

        Raises:
            DataError: features that are not finite; nothing is counted or learned then.
        """
        features = finite_features(self.layer, self.tensors, rows, slice(0, len(rows)))
        labels = rows.labels(slice(None)).numpy()
        predicted = self._predict(features)
        for wrong in (predicted != labels).tolist():
            self.seen += 1
            self.right += not wrong
            if self.drift.add(wrong):
                self.drifts.append(self.seen)
        if self.layer.width <= WIDE and len(self.statistics.classes) > 1:
            self.statistics = accumulate(self.layer, self.tensors, rows, self.statistics)
            if self.statistics.rows >= 2 * max(self._solved, 1) or self._inverse is None:
                self._solve()
            elif len(labels) * len(self.statistics.classes) > self.layer.width // 2:
                self._factorize(self.solution.ridge)  # cheaper than an update by so many equations
            else:
                self._update(features.double().numpy(), labels)
            return predicted, True
        self._waiting.append(rows)
        if sum(len(one) for one in self._waiting) >= COLLECTED:
            self._fold()
        if self.statistics.rows - self._solved < max(COLLECTED, GROWTH * self._solved):
            return predicted, False
        self._solve()
        return predicted, True

    @blas_threads()
    def settle(self) -> None:
        """Add all rows that were collected, and solve."""
        self._fold()
        if self.statistics.rows:
            self._solve()

    def _fold(self) -> None:
        if self._waiting:
            x = torch.cat([rows.inputs(slice(None)) for rows in self._waiting])
            y = torch.cat([rows.labels(slice(None)) for rows in self._waiting])
            self.statistics = accumulate(self.layer, self.tensors, Rows(x, y), self.statistics)
        self._waiting.clear()

    def _predict(self, features: Tensor) -> npt.NDArray[np.int64]:
        frozen = torch.from_numpy(self.layer.frozen[: len(self.statistics.classes)])
        scores = features.double() @ (frozen * torch.from_numpy(self.solution.gain)).T
        if self.layer.bias is not None:
            scores = (
                scores + torch.from_numpy(self.layer.bias[: len(self.statistics.classes)]) / self.solution.sharpness
            )
        return scores.argmax(dim=1).numpy()

    def _solve(self) -> None:
        if not self.statistics.gram.diagonal().any():
            return  # all rows so far were zero, such as a black image: nothing follows from them yet
        self.solution = solve(
            self.statistics, self.layer.frozen, bias=self.layer.bias, prior_rows=self.layer.prior_rows
        )
        self._solved = self.statistics.rows
        if self.layer.width <= WIDE:
            self._factorize(self.solution.ridge)

    def _factorize(self, ridge: float) -> None:
        """The inverse of the normal equations with this ridge, and the context that follows from it."""
        from scipy import linalg

        system = NormalEquations(self.statistics, self.layer.frozen, self.layer.bias)
        gain, factor = system.solve(ridge)
        half = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
        self._inverse = half.T @ half / system.unit
        self.solution = replace(self.solution, gain=gain)

    def _update(self, features: Array, labels: npt.NDArray[np.int64]) -> None:
        """The rank-k update: `P -= P A^T (I + A P A^T)^-1 A P` for the equations A of the new rows."""
        assert self._inverse is not None
        count = len(self.statistics.classes)
        frozen = self.layer.frozen[:count]
        centred = frozen - frozen.mean(axis=0)
        equations = (features[:, None, :] * centred).reshape(-1, features.shape[1])
        wanted = np.eye(count)[labels] - 1 / count
        if self.layer.bias is not None:
            wanted = wanted - (self.layer.bias[:count] - self.layer.bias[:count].mean())
        moved = self._inverse @ equations.T
        middle = np.eye(len(equations)) + equations @ moved
        self._inverse -= moved @ np.linalg.solve(middle, moved.T)
        error = wanted.ravel() - equations @ self.solution.gain
        gain = self.solution.gain + moved @ np.linalg.solve(middle, error)
        self.solution = replace(self.solution, gain=gain)
