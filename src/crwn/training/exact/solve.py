"""The context that minimizes squared error, from statistics alone.

With `C` the frozen output weights R of the task's classes, minus their mean over classes, the context g minimizes

    sum_n w_n |C (g ⊙ h_n) - (y_n - 1/K)|^2 + ridge * m * |g|^2,

where y_n is the one-hot label, K the number of classes and m the mean diagonal of the normal matrix. The mean over
classes is left out because adding a number to all outputs of a row changes no prediction. The solution is

    ((C^T C) ⊙ (H^T H) + ridge * m * I) g = sum_c C_c ⊙ (H^T y_c).

The ridge is the one with the least generalized cross-validation, which needs no further pass over the rows:

    GCV = (RSS / E) / (1 - F / E)^2,   E = rows * (K - 1),   F = features - ridge * m * trace(inverse).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn.errors import CRWNError, DataError
from crwn.training.exact.blas import blas_threads
from crwn.training.exact.statistics import Statistics

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[np.floating]

FIRST_RIDGE, LEAST_RIDGE, MOST_RIDGE = 1e-4, 1e-8, 1e3
LEAST_SHIFT = 0.1  # of the logarithm of a ridge, for which another factor is worth its time
PANEL = 1024
PROBES = 16  # random vectors that estimate a trace of more than `EXACT_TRACE` entries
EXACT_TRACE = 1024
REFINEMENTS = 2  # steps that correct a float32 factor by residuals in float64
# Where residuals are Gaussian, outputs divided by their variance are log-probabilities. Those of images have heavier
# tails: a third of that has the least cross-entropy on held-out rows (docs/exact.md).
SHARPNESS = 1 / 3


@dataclass(frozen=True)
class Solution:
    """A context in closed form.

    Args:
        gain: `[features]`, the minimizer g; `[features, classes]` of a shared head.
        ridge: relative to the mean diagonal of the normal matrix.
        gcv: generalized cross-validation at this ridge: an estimate of the squared error of an output on new rows.
        residual: mean squared error of a training row, summed over its outputs.
        freedom: effective number of parameters.
        sharpness: the factor that makes outputs log-probabilities.
    """

    gain: Array
    ridge: float
    gcv: float
    residual: float
    freedom: float

    @property
    def sharpness(self) -> float:
        return SHARPNESS / max(self.gcv, 1e-6)


class NormalEquations:
    """The linear system of one task, scaled so that its mean diagonal is one.

    Args:
        statistics: sums over the task's rows.
        frozen: R `[outputs, features]`; the first outputs are the task's classes.
        bias: of the outputs, or None.
    """

    def __init__(self, statistics: Statistics, frozen: Array, bias: Array | None = None) -> None:
        classes = len(statistics.classes)
        if statistics.rows == 0 or statistics.weights.sum() <= 0:
            raise DataError("the statistics hold no rows: add some before a context is computed")
        chosen = frozen[:classes]
        self.centred = chosen - chosen.mean(axis=0) if classes > 1 else chosen  # [classes, features]
        self.gram = statistics.gram
        diagonal = (self.centred**2).sum(axis=0) * self.gram.diagonal()
        self.unit = float(diagonal.mean())
        if not self.unit > 0:
            raise DataError("all features of these rows are zero: nothing can be learned from them")
        self.right = (self.centred * statistics.products.T).sum(axis=0)
        shares = statistics.weights
        # sum_n w_n |y_n - 1/K|^2, and with a bias |y_n - 1/K - bias|^2
        self.square = float(shares.sum()) * ((classes - 1) / classes if classes > 1 else 1.0)
        if bias is not None:
            inner = bias[:classes] - bias[:classes].mean() if classes > 1 else bias[:classes]
            self.right -= (self.centred * inner[:, None]).sum(axis=0) * statistics.products.sum(axis=1)
            self.square += float(shares.sum()) * float((inner**2).sum()) - 2 * float(shares @ inner)
        self.weight = float(shares.sum())
        self.equations = statistics.rows * max(1, classes - 1)

    def times(self, x: Array) -> Array:
        """The normal matrix, without ridge, times a vector: `sum_c C_c ⊙ (H^T H (C_c ⊙ x))`."""
        from scipy.linalg import blas

        found = blas.dsymm(1.0, self.gram.T, (self.centred * x).T, lower=False)  # [features, classes]
        moved: Array = (self.centred * found.T).sum(axis=0) / self.unit
        return moved

    def factor(self, ridge: float) -> AnyArray:
        """The lower Cholesky factor of the scaled normal matrix plus the ridge.

        Raises:
            CRWNError: the system is singular.
        """
        from scipy import linalg

        width = len(self.gram)
        dtype = np.float64 if width <= 2 * EXACT_TRACE else np.float32
        # Fortran's order, which LAPACK overwrites in place.
        normal = np.zeros((width, width), dtype=dtype, order="F")
        # Written as the upper triangle of the transposed matrix, which is contiguous.
        upper, centred = normal.T, self.centred
        for left in range(0, width, PANEL):
            some = slice(left, min(left + PANEL, width))
            panel = centred[:, left:].T @ centred[:, some]
            panel *= self.gram[left:, some]
            panel /= self.unit
            upper[some, left:] = panel.T
        normal.ravel(order="K")[:: width + 1] += ridge
        try:
            found: AnyArray = linalg.cholesky(normal, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise CRWNError(
                f"the normal equations of {width:,} features are singular with ridge {ridge:g}: "
                "give a larger ridge, or none to have it chosen"
            ) from None
        return found

    def solve(self, ridge: float) -> tuple[Array, AnyArray]:
        """The minimizer and the factor for this ridge."""
        factor = self.factor(ridge)
        right = self.right / self.unit
        gain = _back(factor, right)
        if factor.dtype == np.float32:
            for _ in range(REFINEMENTS):
                gain = gain + _back(factor, right - self.times(gain) - ridge * gain)
        if not np.isfinite(gain).all():
            raise CRWNError(f"the solution with ridge {ridge:g} is not finite: give a larger ridge")
        return gain, factor

    def measured(self, ridge: float) -> Solution:
        """The solution with its generalized cross-validation."""
        gain, factor = self.solve(ridge)
        freedom = len(gain) - ridge * inverse_trace(factor)
        right = self.right / self.unit
        rest = max(self.square - self.unit * float(gain @ right + ridge * gain @ gain), 1e-12 * self.square)
        left = max(1 - freedom / self.equations, 1e-3)
        mean = rest / self.weight / max(1, len(self.centred) - 1)
        return Solution(gain, ridge, mean / left**2, rest / self.weight, freedom)


def solve(
    statistics: Statistics,
    frozen: Array,
    *,
    bias: Array | None = None,
    ridge: float | None = None,
    prior_rows: float = 0.0,
) -> Solution:
    """The context of these statistics.

    Args:
        frozen, bias: of the output layer.
        ridge: relative to the mean diagonal of the normal matrix; None for the one of least GCV.
        prior_rows: where the ridge is chosen, it is at least `prior_rows / rows`: GCV is too low for small ridges where
            features outnumber rows, or where rows are changed copies of each other.

    Raises:
        CRWNError: the system is singular.
        DataError: there are no rows, or all features are zero.
    """
    least = prior_rows / max(1, statistics.rows)
    return best_solution(NormalEquations(statistics, frozen, bias), ridge, least=least)


@blas_threads()
def best_solution(system: NormalEquations, ridge: float | None = None, *, least: float = 0.0) -> Solution:
    """The solution with this ridge; None for the one of least GCV among powers of ten, or from `least` on."""
    if ridge is not None:
        return system.measured(ridge)
    if least > 0:
        return _downhill(system, [system.measured(min(least, MOST_RIDGE))], 10.0)
    tried = [_first(system)]
    for factor in (10.0, 0.1):
        best = _downhill(system, tried, factor)
        if best is not tried[0]:
            break
    return _between(system, tried, best)


def _first(system: NormalEquations) -> Solution:
    """The solution of the smallest usual ridge that the rounding of the factor allows."""
    ridge = FIRST_RIDGE
    while True:
        try:
            return system.measured(ridge)
        except CRWNError:
            if ridge >= MOST_RIDGE:
                raise
            ridge *= 10


def _downhill(system: NormalEquations, tried: list[Solution], factor: float) -> Solution:
    """The last solution, of ridges multiplied by this factor from the first one on, whose GCV was still falling."""
    best = tried[0]
    while LEAST_RIDGE < best.ridge < MOST_RIDGE:
        try:
            tried.append(system.measured(best.ridge * factor))
        except CRWNError:
            return best
        if tried[-1].gcv >= best.gcv:
            return best
        best = tried[-1]
    return best


def _between(system: NormalEquations, tried: list[Solution], best: Solution) -> Solution:
    """The solution between powers of ten: at the minimum of the parabola through the best and its two neighbours."""
    known = {round(math.log10(one.ridge)): math.log(one.gcv) for one in tried}
    at = round(math.log10(best.ridge))
    if at - 1 not in known or at + 1 not in known:
        return best
    below, here, above = (known[at + step] for step in (-1, 0, 1))
    bend = below - 2 * here + above
    shift = (below - above) / (2 * bend) if bend > 0 else 0.0
    if abs(shift) < LEAST_SHIFT:
        return best
    found = system.measured(best.ridge * 10**shift)
    return found if found.gcv < best.gcv else best


def _back(factor: AnyArray, right: Array) -> Array:
    from scipy import linalg

    found = linalg.cho_solve((factor, True), right.astype(factor.dtype), check_finite=False)
    return np.asarray(found, dtype=np.float64)


def inverse_trace(factor: AnyArray) -> float:
    """The trace of the inverse; of large matrices an estimate by random signs, always the same ones."""
    from scipy import linalg

    width = len(factor)
    if width <= EXACT_TRACE:
        inverse = linalg.solve_triangular(factor, np.eye(width), lower=True, check_finite=False)
        return float((inverse**2).sum())
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(width, PROBES))
    half = linalg.solve_triangular(factor, signs.astype(factor.dtype), lower=True, check_finite=False)
    return float((half.astype(np.float64) ** 2).sum() / PROBES)
