"""A scikit-learn classifier of images: frozen filters made from the seed, and a modulated decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from crwn.errors import CRWNError
from crwn.learner import Learner
from crwn.models import ImageFlyNet, build, describe

Array = npt.NDArray[Any]


class ImageFlyNetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies images `[n, height, width]`, `[n, channels, height, width]`, or rows of pixels.

    Args:
        image_shape: `(height, width)` or `(channels, height, width)` of rows of pixels; None for square images, grey
            or, where only a third of the row is a square, of three channels.
        filters: number of filters; 18 parameters are learned for each.
        sides: sides of the filters in pixels.
        mirror: also learn the mirror image of every image; False for letters, digits and the like.
        batches: number of batches.
        random_state: seed of filters, frozen weights, initial context and batch order.

    >>> from sklearn.datasets import load_digits
    >>> x, y = load_digits(return_X_y=True)
    >>> classifier = ImageFlyNetClassifier(filters=32, sides=(3, 4), mirror=False, random_state=0)
    >>> classifier.fit(x[:1200], y[:1200]).score(x[1200:], y[1200:]) > 0.8
    True
    """

    def __init__(
        self,
        image_shape: Sequence[int] | None = None,
        *,
        filters: int = 272,
        sides: Sequence[int] = (4, 8),
        mirror: bool = True,
        batches: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.image_shape = image_shape
        self.filters = filters
        self.sides = sides
        self.mirror = mirror
        self.batches = batches
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on images and their labels."""
        images = _images(X, self.image_shape)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.classes_ = np.unique(np.asarray(y))
        try:
            encoding: dict[str, Any] = {"filters": self.filters, "sides": self.sides, "mirror": self.mirror}
            model = ImageFlyNet(images.shape[1:], len(self.classes_), seed=seed, **encoding)
            labels = np.searchsorted(self.classes_, np.asarray(y))
            learner = Learner(model)
            self.context_ = learner.learn("fit", images, labels, batches=self.batches, progress=False)
        except CRWNError as error:
            raise ValueError(str(error)) from None
        self.description_ = describe(model)
        self._learner = learner
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `[images, classes]`, classes in the order of `classes_`."""
        check_is_fitted(self)
        try:
            return self._learner.predict_proba(_images(X, self.image_shape), task="fit")
        except CRWNError as error:
            raise ValueError(str(error)) from None

    def predict(self, X: Any) -> Array:
        """The most probable label of every image."""
        labels: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_learner", None)  # filters are made again from the seed
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "description_" in state:
            self._learner = Learner(build(self.description_))
            self._learner.add(self.context_)


def _images(X: Any, shape: Sequence[int] | None) -> Array:
    """Images `[n, channels, height, width]`; ValueError where the rows are no images."""
    x = np.asarray(X)
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4:
        return x if x.shape[1] in (1, 3) or x.shape[-1] not in (1, 3) else np.moveaxis(x, -1, 1)
    if x.ndim != 2:
        raise ValueError(f"images must have the shape [n, height, width], got {x.shape}")
    features, chosen = x.shape[1], tuple(shape or ())
    for channels in (1, 3):
        side = math.isqrt(features // channels)
        if not chosen and channels * side * side == features:
            chosen = (channels, side, side)
    if len(chosen) == 2:
        chosen = (1, *chosen)
    if len(chosen) != 3 or math.prod(chosen) != features:
        raise ValueError(f"rows of {features} values are no images of shape {shape}: give image_shape=(height, width)")
    return x.reshape(len(x), *chosen)
