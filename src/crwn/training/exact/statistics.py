"""Sums over the rows of a task that determine its context: they add and subtract, in any order and split."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from crwn.data.standardize import NO_SCALING, Scaling
from crwn.errors import ContextError, DataError

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """`sum w h h^T` and, for every class, `sum w h`, over the rows (features h, weight w) of one task.

    The features of wide models are rounded to 8 bits row by row (`accumulate.py`): the sums are then integers times
    powers of two, exact in float64, so that any order, split, addition and subtraction gives the same bits.

    Args:
        model: fingerprint of the model.
        below: digest of the context of the layers below the output layer.
        classes: label of every class, in the order of the outputs.
        scaling: mean and deviation that raw rows were standardized with.
        precision: "float64", or "int8" for rounded features.
        gram: `[features, features]`; only the lower triangle is defined.
        products: `[features, classes]`.
        weights: sum of the rows' weights in every class.
        counts: number of rows in every class.
    """

    model: str
    below: str
    classes: tuple[Hashable, ...]
    scaling: Scaling
    precision: str
    gram: Array
    products: Array
    weights: Array
    counts: npt.NDArray[np.int64]

    @classmethod
    def empty(
        cls,
        width: int,
        classes: tuple[Hashable, ...],
        *,
        model: str,
        below: str = "",
        scaling: Scaling = NO_SCALING,
        precision: str = "float64",
    ) -> Statistics:
        """The statistics of no rows."""
        count = len(classes)
        sums = np.zeros((width, width)), np.zeros((width, count)), np.zeros(count)
        return cls(model, below, classes, scaling, precision, *sums, np.zeros(count, dtype=np.int64))

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return int(self.counts.sum())

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.gram)

    @property
    def nbytes(self) -> int:
        """The size on disk: the lower triangle and the smaller sums."""
        return 8 * (self.width * (self.width + 1) // 2 + self.products.size + 2 * len(self.counts))

    def check_same(self, other: Statistics) -> None:
        """Raise ContextError unless the other statistics are of the same model, classes, scaling and precision."""
        check_statistics(other)
        for what in ("model", "below", "classes", "scaling", "precision"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                named = {"below": "the context of the layers below"}.get(what, what)
                raise ContextError(
                    f"statistics of another {named} ({_short(theirs)}) cannot be combined with these "
                    f"({_short(mine)}): compute them with the same model, classes and scaling"
                )

    def widened(self, classes: tuple[Hashable, ...]) -> Statistics:
        """The same sums with classes added that have no rows yet; those there are come first, in their order.

        Raises:
            DataError: the new classes do not begin with the old ones.
        """
        count = len(self.classes)
        if classes[:count] != self.classes:
            raise DataError(f"classes are added after {_short(self.classes)}, got {_short(classes)}: keep their order")
        more = len(classes) - count
        return replace(
            self,
            classes=classes,
            products=np.pad(self.products, ((0, 0), (0, more))),
            weights=np.pad(self.weights, (0, more)),
            counts=np.pad(self.counts, (0, more)),
        )

    def add(self, other: Statistics) -> Statistics:
        """The statistics of both sets of rows."""
        self.check_same(other)
        return replace(
            self,
            gram=self.gram + other.gram,
            products=self.products + other.products,
            weights=self.weights + other.weights,
            counts=self.counts + other.counts,
        )

    def subtract(self, other: Statistics) -> Statistics:
        """The statistics of the rows that are left when the other's rows are taken away.

        Raises:
            DataError: there are more rows to remove than there are, or some of them were never added.
        """
        self.check_same(other)
        left = self.counts - other.counts
        if (left < 0).any():
            at = int(np.argmin(left))
            raise DataError(
                f"{other.counts[at]:,} rows of class {self.classes[at]!r} to remove, but only {self.counts[at]:,} "
                "were learned: nothing was removed"
            )
        gram = self.gram - other.gram
        diagonal, before = gram.diagonal(), self.gram.diagonal()
        if (diagonal < -1e-9 * np.maximum(before, 1.0)).any():
            raise DataError("some of the rows to remove were never learned by this task: nothing was removed")
        weights = np.where(left == 0, 0.0, self.weights - other.weights)
        return replace(self, gram=gram, products=self.products - other.products, weights=weights, counts=left)


def merge(*several: Statistics) -> Statistics:
    """The statistics of the union of several owners' rows."""
    if not several:
        raise DataError("no statistics to merge: give at least one")
    whole = several[0]
    check_statistics(whole)
    for one in several[1:]:
        whole = whole.add(one)
    return whole


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check_statistics(given: object) -> None:
    """Raise ContextError for anything but statistics."""
    if not isinstance(given, Statistics):
        raise ContextError(
            f"statistics are what `learner.statistics(task)` returns and their sums, this is {type(given).__name__}"
        )
