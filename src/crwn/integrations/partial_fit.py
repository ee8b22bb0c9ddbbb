"""`partial_fit` of the scikit-learn classifiers: a closed form that rows are added to."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from crwn.data.dataset import Rows
from crwn.errors import CRWNError
from crwn.integrations.frozen_estimator import FrozenEstimator, Scaled, _in_double
from crwn.models import build, describe
from crwn.training.exact import ExactSettings, learn_exact
from crwn.training.task import PreparedTask


class PartialFit(FrozenEstimator):
    """Classifiers whose rows may come in parts."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to a closed form: in any order and split, the result is that of all rows at once.

        The first call fixes the classes, those of `y` or `classes`. Rows are used as they are, so scale them first.
        """
        first = not hasattr(self, "statistics_")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            self.scaling_ = (0.0, 1.0)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            width = self.n_features_in_ * (2 if self._mirrored else 1) + 1
            self.description_ = describe(self._network(width, self.n_features_in_, len(self.classes_), seed))
        at = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if (self.classes_[at] != y).any():
            new = np.asarray(y)[self.classes_[at] != y][0]
            raise ValueError(f"label {new} is not among the classes of the first call: {self.classes_.tolist()}")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        rows = Rows(
            torch.from_numpy(X).float(),
            torch.from_numpy(at),
            prepare=Scaled(self.scaling_, self._mirrored),
            weight=None if (weight == 1).all() else torch.from_numpy(weight).float(),
        )
        network = build(self.description_)
        task = PreparedTask("fit", rows, range(len(self.classes_)))
        try:
            found = learn_exact(network, task, ExactSettings(), before=getattr(self, "statistics_", None))
        except CRWNError as error:
            raise ValueError(str(error)) from None
        self.statistics_ = found.statistics
        self.context_, self.loss_ = found.learned.tensors, found.learned.loss
        self._network64 = _in_double(network, self.context_)
        return self
