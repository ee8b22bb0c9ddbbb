"""scikit-learn estimators: FlyNet and NeuroModNet as classifiers for one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.data.standardize import overall_scaling
from crwn.errors import CRWNError
from crwn.learner.fit import choose_recipe
from crwn.models import FlyNet, Network, NeuroModNet, build, describe
from crwn.training.loop import train
from crwn.training.task import PreparedTask

Array = npt.NDArray[Any]


class _Scaled:
    """Standardized rows with a column of ones added, because the networks have no biases."""

    def __init__(self, scaling: tuple[float, float], mirrored: bool) -> None:
        self.mean, self.std = scaling
        self.mirrored = mirrored

    def __call__(self, batch: Tensor) -> Tensor:
        scaled = (batch - self.mean) / self.std
        parts = [scaled, -scaled] if self.mirrored else [scaled]
        return torch.cat([*parts, torch.ones(len(batch), 1, dtype=batch.dtype)], dim=1)


class _FrozenClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The common part of both classifiers: training one context, and predicting with it."""

    _mirrored = False

    def __init__(self, *, batches: int, batch_size: int, rate: float | None, random_state: Any) -> None:
        self.batches = batches
        self.batch_size = batch_size
        self.rate = rate
        self.random_state = random_state

    def _network(self, in_features: int, features: int, classes: int, seed: int) -> Network:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows X `[rows, features]` and labels y.

        A sample weight of k is equivalent to k copies of the row; the order of the rows has no influence.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(f"sample weights must not be negative, got {weight.min()}")
        if not weight.any():
            raise ValueError("all sample weights are zero: at least one must be positive")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        X, labels, weight = _each_row_once(X, labels, weight)
        x = torch.from_numpy(X).float()
        self.scaling_ = overall_scaling(x)
        prepare = _Scaled(self.scaling_, self._mirrored)
        weights = None if (weight == weight[0]).all() else torch.from_numpy(weight).float()
        rows = Rows(x, torch.from_numpy(labels), prepare=prepare, weight=weights)
        try:
            width = self.n_features_in_ * (2 if self._mirrored else 1) + 1
            network = self._network(width, self.n_features_in_, len(self.classes_), seed)
            recipe = choose_recipe(network, None, batches=self.batches, epochs=None)
            changes = {"batch_size": self.batch_size} | ({} if self.rate is None else {"rate": self.rate})
            recipe = type(recipe)(**recipe.model_dump() | changes)
            (learned,) = train(network, [PreparedTask("fit", rows, range(len(self.classes_)))], recipe, seed=seed)
        except CRWNError as error:
            raise ValueError(str(error)) from None
        self.context_ = learned.tensors
        self.description_ = describe(network)
        self.loss_ = learned.loss
        self._network64 = _in_double(network, self.context_)
        return self

    def _logits(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        prepare = _Scaled(self.scaling_, self._mirrored)
        with torch.no_grad():
            parts = [
                self._network64(prepare(torch.from_numpy(np.array(X[at : at + 1000], dtype=np.float64))))
                for at in range(0, len(X), 1000)
            ]
        return torch.cat(parts)[:, : len(self.classes_)].numpy()

    def decision_function(self, X: Any) -> Array:
        """Logits `[rows, classes]`; for two classes the second's minus the first's, `[rows]`."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `[rows, classes]`, classes in the order of `classes_`."""
        return torch.from_numpy(self._logits(X)).softmax(dim=1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable label of every row."""
        best = self._logits(X).argmax(axis=1)
        labels: Array = self.classes_[best]
        return labels

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_network64", None)  # frozen weights are made again from the seed
        state.pop("_answering", None)  # its name in earlier versions
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "description_" in state:
            self._network64 = _in_double(build(self.description_), self.context_)


class NeuroModNetClassifier(_FrozenClassifier):
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
            constant=False,  # `_Scaled` has appended it
        )


class FlyNetClassifier(_FrozenClassifier):
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
        # `_Scaled` has appended the constant.
        return FlyNet(in_features, hidden, classes, seed=seed, inputs_per_node=few, gamma=self.gamma, constant=False)


def _each_row_once(x: Array, labels: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Rows with positive weight, sorted, with equal rows merged and their weights added.

    This makes weights and copies equivalent: batches are drawn from distinct rows.
    """
    counts = weight > 0
    table = np.column_stack([x[counts] + 0.0, labels[counts]])  # -0.0 and 0.0 are one value
    once, at = np.unique(np.ascontiguousarray(table).view(f"V{table.itemsize * table.shape[1]}"), return_inverse=True)
    merged = once.view(table.dtype).reshape(len(once), -1)
    return merged[:, :-1].copy(), merged[:, -1].astype(np.int64), np.bincount(at.ravel(), weights=weight[counts])


def _in_double(network: Network, context: dict[str, Tensor]) -> Network:
    """The network with this context in float64, where the output of a row does not depend on its batch."""
    network.load_state_dict(context, strict=False)
    return network.double().eval().requires_grad_(False)
