"""One head over the classes of all tasks, in closed form on frozen features: an answer for rows without a task.

It keeps one Gram matrix of all rows and, for every class of every task, the sum of its features. Both are sums, so the
head is the same in whatever order the tasks came. With features h and one-hot classes y it minimizes

    sum_n |W^T h_n - y_n|^2 + ridge * m * |W|^2,   W = (H^T H + ridge * m * I)^-1 H^T Y,

m the mean diagonal of the Gram matrix, and the ridge the one of least generalized cross-validation (GCV). Scores
W^T h, divided by their deviation (the root of GCV) and times a constant, are log-probabilities (docs/unknown-tasks.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling
from crwn.errors import CRWNError, DataError, TaskError
from crwn.layers import context_tensors
from crwn.models import EncodedNetwork
from crwn.models.backbones import BackboneNet, DeepBackboneNet
from crwn.models.backbones.head import PRIOR_ROWS, Expansion
from crwn.training.exact.accumulate import Report, accumulate, precision_for
from crwn.training.exact.output_layer import output_layer
from crwn.training.exact.solve import (
    AnyArray,
    Array,
    NormalEquations,
    Solution,
    best_solution,
    inverse_trace,
)
from crwn.training.exact.statistics import Statistics

UNITS = 2000  # random units on the features of a backbone
# The ridge is at least this, times features, divided by rows: where features outnumber rows, GCV is least for no ridge
# at all. Images on a backbone have `PRIOR_ROWS` instead.
LEAST_PRIOR = 0.005
# Scores divided by their deviation, times this, are log-probabilities: of the factors tried it had the least
# cross-entropy on held-out training rows, for 15 to 100 classes and 15 to 400 images of a class.
CONFIDENCE = 1.5
Encode = Callable[[Tensor], Tensor]
Member = tuple[str, Hashable]  # a task and one of its classes


@dataclass(frozen=True)
class FrozenFeatures:
    """Features that depend on no task, as `accumulate` takes them."""

    encode: Encode

    def features(self, tensors: object, x: Tensor) -> Tensor:
        """Features `[rows, width]` of inputs."""
        with torch.no_grad():
            return self.encode(x)


def shared_units(model: nn.Module, units: int = UNITS) -> tuple[int, Encode, float]:
    """How many units a shared head has on this model, the function that computes them, and the least ridge times rows.

    For a network with an encoder it takes the encoder's features: those of a backbone become `units` frozen random
    units `relu(W f)`. For other networks it takes inputs, and the units are the inputs of the output layer as every
    task finds them before it learns.

    Raises:
        ModelError: the model's outputs are not those of a modulated linear layer.
    """
    if isinstance(model, BackboneNet):
        expansion = Expansion(model.backbone.features, units=units, seed=model.config["seed"])
        prior = PRIOR_ROWS * units * model.copies
        if isinstance(model, DeepBackboneNet):  # as every task finds the backbone before it learns
            return expansion.out_features, lambda maps: expansion(model.backbone_features(maps)), prior
        return expansion.out_features, lambda f: expansion(f.float()), prior
    if isinstance(model, EncodedNetwork):
        return model.features, lambda f: f.float(), LEAST_PRIOR * model.features * model.copies
    layer, start = output_layer(model), context_tensors(model)
    return layer.width, lambda x: layer.features(start, x).float(), LEAST_PRIOR * layer.width


class SharedHead:
    """The sums of all tasks, and the head they determine.

    Args:
        width: the number of features.
        encode: inputs to features `[rows, width]`; by default the rows are features.
        prior: the ridge is at least `prior / rows`.
        model: what the features come from, so that sums of other features are never added.
        scaling: mean and deviation that rows of all tasks are standardized with.
        sums: those of an earlier head, to go on from; of no rows by default.
    """

    def __init__(
        self,
        width: int,
        encode: Encode = lambda x: x.float(),
        prior: float = 0.0,
        *,
        model: str = "",
        scaling: Scaling = NO_SCALING,
        sums: Statistics | None = None,
    ) -> None:
        self.encode, self.prior = encode, prior
        empty = Statistics.empty(width, (), model=model, scaling=scaling, precision=precision_for(width))
        self.sums = sums or empty
        self._solution: Solution | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """Task and label of every output."""
        return self.sums.classes  # type: ignore[return-value]

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, in the order they came."""
        return list(dict.fromkeys(task for task, _ in self.members))

    def add(self, task: str, rows: Rows, labels: Sequence[Hashable], *, report: Report = lambda done: None) -> None:
        """Add the rows of a task, whose class indices point into `labels`; classes that are there gain rows.

        Raises:
            DataError: there are no rows, or features that are not finite.
        """
        if not len(rows):
            raise DataError(f'task "{task}" has no rows: a shared head learns from at least one')
        wanted = [(task, label) for label in labels]
        new = [member for member in wanted if member not in set(self.members)]
        classes = (*self.members, *new)
        at = torch.tensor([classes.index(member) for member in wanted])
        moved = rows.labelled(at[rows.labels(slice(None))])
        into = self.sums.widened(classes)
        self.sums = accumulate(FrozenFeatures(self.encode), {}, moved, into, report=report)
        self._solution = None

    def forget(self, task: str) -> None:
        """Drop a task's classes. Its rows stay in the Gram matrix, which has no part of their own for them."""
        left = [at for at, (name, _) in enumerate(self.members) if name != task]
        if len(left) == len(self.members):
            raise TaskError(f'the shared head has no task "{task}"')
        sums = self.sums
        self.sums = replace(
            sums,
            classes=tuple(sums.classes[at] for at in left),
            products=sums.products[:, left],
            weights=sums.weights[left],
            counts=sums.counts[left],
        )
        self._solution = None

    @property
    def solution(self) -> Solution:
        """Weights `[width, classes]` with their ridge and cross-validation; solved when first needed.

        Raises:
            DataError: there are no rows yet.
        """
        if self._solution is None:
            self._solution = best_solution(_HeadEquations(self.sums), least=self.prior / max(1, self.sums.rows))
        return self._solution

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Log-probabilities up to a constant of every class of every task, `[rows, classes]`, for inputs."""
        return self.encode(x) @ self.weights

    @property
    def weights(self) -> Tensor:
        """What features are multiplied with to give `logits`, `[width, classes]`."""
        found = self.solution
        return torch.from_numpy(found.gain).float() * (CONFIDENCE / math.sqrt(max(found.gcv, 1e-6)))


def task_scores(names: Sequence[str], members: Sequence[Member], logits: Tensor) -> Tensor:
    """Log-probabilities of these tasks `[rows, tasks]`, from logits `[rows, classes]` of all members."""
    places = [torch.tensor([task == name for task, _ in members]) for name in names]
    return torch.stack([logits[:, mine].logsumexp(dim=1) for mine in places], dim=1).log_softmax(dim=1)


class _HeadEquations(NormalEquations):
    """The linear system of all classes at once, scaled so that its mean diagonal is one."""

    def __init__(self, sums: Statistics) -> None:
        if sums.rows == 0 or sums.weights.sum() <= 0:
            raise DataError("the shared head has no rows yet: add a task first")
        self.gram = sums.gram
        self.unit = float(self.gram.diagonal().mean())
        if not self.unit > 0:
            raise DataError("all features of these rows are zero: nothing can be learned from them")
        self.right = sums.products
        self.weight = self.square = float(sums.weights.sum())
        self.equations = sums.rows

    def times(self, x: Array) -> Array:
        from scipy.linalg import blas

        found: Array = blas.dsymm(1.0, self.gram.T, x, lower=False) / self.unit
        return found

    def factor(self, ridge: float) -> AnyArray:
        from scipy import linalg

        width = len(self.gram)
        kind: type[np.floating] = np.float64 if width <= 2048 else np.float32
        normal: AnyArray = np.asfortranarray(self.gram / self.unit, dtype=kind)
        normal[np.diag_indices(width)] += ridge
        try:
            found: AnyArray = linalg.cholesky(normal, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise CRWNError(f"the shared head of {width:,} features is singular with ridge {ridge:g}") from None
        return found

    def measured(self, ridge: float) -> Solution:
        gain, factor = self.solve(ridge)
        freedom = len(gain) - ridge * inverse_trace(factor)
        right = self.right / self.unit
        rest = self.square - self.unit * float((gain * right).sum() + ridge * (gain**2).sum())
        rest = max(rest, 1e-12 * self.square)
        left = max(1 - freedom / self.equations, 1e-3)
        classes = max(1, self.right.shape[1] - 1)
        return Solution(gain, ridge, rest / self.weight / classes / left**2, rest / self.weight, freedom)
