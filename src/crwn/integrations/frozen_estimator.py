"""What the scikit-learn estimators of crwn share: training one context for one task, and computing with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from crwn.contexts.kinds import Kind
from crwn.data.dataset import Rows
from crwn.data.standardize import overall_scaling
from crwn.errors import CRWNError
from crwn.learner.fit import choose_recipe
from crwn.models import Network, build, describe
from crwn.training.loop import train
from crwn.training.task import PreparedTask

Array = npt.NDArray[Any]


class Scaled:
    """Standardized rows with a column of ones added, so that thresholds can be learned without biases."""

    def __init__(self, scaling: tuple[float, float], mirrored: bool) -> None:
        self.mean, self.std = scaling
        self.mirrored = mirrored

    def __call__(self, batch: Tensor) -> Tensor:
        scaled = (batch - self.mean) / self.std
        parts = [scaled, -scaled] if self.mirrored else [scaled]
        return torch.cat([*parts, torch.ones(len(batch), 1, dtype=batch.dtype)], dim=1)


class FrozenEstimator(BaseEstimator):  # type: ignore[misc]
    """A frozen network with one context; the classifiers and regressors add what their targets need."""

    _mirrored = False

    def __init__(self, *, batches: int, batch_size: int, rate: float | None, random_state: Any) -> None:
        self.batches = batches
        self.batch_size = batch_size
        self.rate = rate
        self.random_state = random_state

    def _network(self, in_features: int, features: int, classes: int, seed: int) -> Network:
        raise NotImplementedError

    def _train(self, X: Array, y: Array, sample_weight: Any, outputs: int, kind: Kind) -> None:
        """Train on checked rows and targets: class indices, or standardized numbers."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(f"sample weights must not be negative, got {weight.min()}")
        if not weight.any():
            raise ValueError("all sample weights are zero: at least one must be positive")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        X, y, weight = _each_row_once(X, y, weight)
        x = torch.from_numpy(X).float()
        self.scaling_ = overall_scaling(x)
        prepare = Scaled(self.scaling_, self._mirrored)
        weights = None if (weight == weight[0]).all() else torch.from_numpy(weight).float()
        targets = (
            torch.from_numpy(y.astype(np.int64)) if kind == "classification" else torch.from_numpy(y).float()[:, None]
        )
        rows = Rows(x, targets, prepare=prepare, weight=weights)
        try:
            width = self.n_features_in_ * (2 if self._mirrored else 1) + 1
            network = self._network(width, self.n_features_in_, outputs, seed)
            recipe = choose_recipe(network, None, batches=self.batches, epochs=None)
            changes = {"batch_size": self.batch_size} | ({} if self.rate is None else {"rate": self.rate})
            recipe = type(recipe)(**recipe.model_dump() | changes)
            (learned,) = train(network, [PreparedTask("fit", rows, range(outputs), kind=kind)], recipe, seed=seed)
        except CRWNError as error:
            raise ValueError(str(error)) from None
        self.context_ = learned.tensors
        self.description_ = describe(network)
        self.loss_ = learned.loss
        self._network64 = _in_double(network, self.context_)

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        prepare = Scaled(self.scaling_, self._mirrored)
        with torch.no_grad():
            parts = [
                self._network64(prepare(torch.from_numpy(np.array(X[at : at + 1000], dtype=np.float64))))
                for at in range(0, len(X), 1000)
            ]
        return torch.cat(parts).numpy()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_network64", None)  # frozen weights are made again from the seed
        state.pop("_answering", None)  # its name in earlier versions
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "description_" in state:
            self._network64 = _in_double(build(self.description_), self.context_)


def _each_row_once(x: Array, targets: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Rows with positive weight, sorted, with equal rows merged and their weights added.

    This makes weights and copies equivalent: batches are drawn from distinct rows.
    """
    counts = weight > 0
    table = np.column_stack([x[counts] + 0.0, targets[counts]])  # -0.0 and 0.0 are one value
    once, at = np.unique(np.ascontiguousarray(table).view(f"V{table.itemsize * table.shape[1]}"), return_inverse=True)
    merged = once.view(table.dtype).reshape(len(once), -1)
    return merged[:, :-1].copy(), merged[:, -1].copy(), np.bincount(at.ravel(), weights=weight[counts])


def _in_double(network: Network, context: dict[str, Tensor]) -> Network:
    """The network with this context in float64, where the output of a row does not depend on its batch."""
    network.load_state_dict(context, strict=False)
    return network.double().eval().requires_grad_(False)
