"""scikit-learn estimators: FlyNet and NeuroModNet as classifiers and regressors for one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from crwn.integrations.frozen_estimator import Array, FrozenEstimator
from crwn.integrations.partial_fit import PartialFit
from crwn.models import FlyNet, Network, NeuroModNet


class _FrozenClassifier(ClassifierMixin, PartialFit):  # type: ignore[misc]
    """The common part of both classifiers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows X `[rows, features]` and labels y.

        A sample weight of k is equivalent to k copies of the row; the order of the rows has no influence.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if hasattr(self, "statistics_"):  # of an earlier `partial_fit`
            del self.statistics_
        self._train(X, labels, sample_weight, len(self.classes_), "classification")
        return self

    def decision_function(self, X: Any) -> Array:
        """Logits `[rows, classes]`; for two classes the second's minus the first's, `[rows]`."""
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `[rows, classes]`, classes in the order of `classes_`."""
        return torch.from_numpy(self._outputs(X)).softmax(dim=1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable label of every row."""
        best = self._outputs(X).argmax(axis=1)
        labels: Array = self.classes_[best]
        return labels


class _FrozenRegressor(RegressorMixin, FrozenEstimator):  # type: ignore[misc]
    """The common part of both regressors."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows X `[rows, features]` and numbers y `[rows]` by the squared error.

        A sample weight of k is equivalent to k copies of the row; the order of the rows has no influence.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        # The middle of the range, not the mean: weights and copies of rows must give the same scaling.
        low, high = float(y.min()), float(y.max())
        self.target_scaling_ = ((low + high) / 2, (high - low) / 4 or 1.0)
        middle, scale = self.target_scaling_
        self._train(X, (y - middle) / scale, sample_weight, 1, "regression")
        return self

    def predict(self, X: Any) -> Array:
        """The predicted number of every row."""
        middle, scale = self.target_scaling_ if hasattr(self, "target_scaling_") else (0.0, 1.0)
        numbers: Array = middle + scale * self._outputs(X)[:, 0]
        return numbers


class _NeuroModNet(FrozenEstimator):
    """The network and the settings of both NeuroModNet estimators."""

    def __init__(
        self,
        hidden: Sequence[int] = (512,),
        *,
        weights: str = "gaussian",
        activation: str = "relu",
        batches: int = 300,
        batch_size: int = 128,
        rate: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.weights = weights
        self.activation = activation
        self.hidden = hidden
        super().__init__(batches=batches, batch_size=batch_size, rate=rate, random_state=random_state)

    def _network(self, in_features: int, features: int, classes: int, seed: int) -> Network:
        return NeuroModNet(
            in_features,
            self.hidden,
            classes,
            seed=seed,
            weights=self.weights,
            activation=self.activation,
            constant=False,  # `Scaled` has appended it
        )


class _FlyNet(FrozenEstimator):
    """The network and the settings of both FlyNet estimators."""

    # The encoder only adds inputs, so it gets every feature twice, as `x` and `-x`.
    _mirrored = True

    def __init__(
        self,
        hidden: int | None = None,
        *,
        inputs_per_node: int | None = None,
        gamma: float = 1.0,
        batches: int = 300,
        batch_size: int = 128,
        rate: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.inputs_per_node = inputs_per_node
        self.gamma = gamma
        super().__init__(batches=batches, batch_size=batch_size, rate=rate, random_state=random_state)

    def _network(self, in_features: int, features: int, classes: int, seed: int) -> Network:
        hidden = max(256, 10 * features) if self.hidden is None else self.hidden
        few = min(7, max(1, in_features // 3)) if self.inputs_per_node is None else self.inputs_per_node
        # `Scaled` has mirrored the rows and appended the constant.
        return FlyNet(in_features, hidden, classes, seed=seed, inputs_per_node=few, gamma=self.gamma, constant=False)


class NeuroModNetClassifier(_FrozenClassifier, _NeuroModNet):
    """A network of frozen random layers whose modulation is trained: few parameters, however wide it is.

    Columns of different units should be scaled first, as for any network: put a StandardScaler before it.

    Args:
        hidden: widths of the hidden layers.
        weights: "gaussian" or "hadamard".
        activation: "relu", "gelu", "abs" or "cos".
        batches, batch_size, rate: number and size of batches, and learning rate; None for crwn's default rate.
        random_state: seed of frozen weights, initial context and batch order.

    >>> from sklearn.datasets import load_digits
    >>> x, y = load_digits(return_X_y=True)
    >>> NeuroModNetClassifier(random_state=0).fit(x[:1200], y[:1200]).score(x[1200:], y[1200:]) > 0.85
    True
    """


class FlyNetClassifier(_FrozenClassifier, _FlyNet):
    """A sparse random encoder, as in the fly's olfactory system, and a modulated decoder.

    The encoder only adds inputs, so every feature is given to it twice, as `x` and `-x`.

    Args:
        hidden: number of hidden nodes; None for ten times the number of features, at least 256.
        inputs_per_node: number of inputs that a hidden node adds; None for 7, or fewer if there are few features.
        gamma: factor of the mean over hidden nodes that is subtracted; larger is sparser.
        batches, batch_size, rate, random_state: as for NeuroModNetClassifier.

    >>> from sklearn.datasets import load_digits
    >>> x, y = load_digits(return_X_y=True)
    >>> FlyNetClassifier(random_state=0).fit(x[:1200], y[:1200]).score(x[1200:], y[1200:]) > 0.85
    True
    """


class NeuroModNetRegressor(_FrozenRegressor, _NeuroModNet):
    """Predicts numbers with the network of NeuroModNetClassifier, whose arguments it takes.

    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> NeuroModNetRegressor(random_state=0).fit(x[:300], y[:300]).score(x[300:], y[300:]) > 0.3
    True
    """


class FlyNetRegressor(_FrozenRegressor, _FlyNet):
    """Predicts numbers with the network of FlyNetClassifier, whose arguments it takes.

    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> FlyNetRegressor(random_state=0).fit(x[:300], y[:300]).score(x[300:], y[300:]) > 0.3
    True
    """
