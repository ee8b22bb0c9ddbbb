"""The scikit-learn classifier of images: rows of pixels and images, pickling, and what is no image."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from crwn.integrations.sklearn_images import ImageFlyNetClassifier
from digit_rows import Data


@pytest.fixture(scope="module")
def fitted(digits: Data) -> ImageFlyNetClassifier:
    x, y = digits
    return ImageFlyNetClassifier(filters=32, sides=(3, 4), mirror=False, batches=100, random_state=0).fit(
        x[:600], y[:600]
    )


def test_digits_are_classified_as_rows_and_as_images(fitted: ImageFlyNetClassifier, digits: Data) -> None:
    x, y = digits[0][600:700], digits[1][600:700]
    assert fitted.score(x, y) > 0.8
    assert np.array_equal(fitted.predict(x), fitted.predict(x.reshape(-1, 8, 8)))
    assert np.allclose(fitted.predict_proba(x).sum(axis=1), 1, atol=1e-5)


def test_it_is_cloned_and_pickled_without_its_filters(fitted: ImageFlyNetClassifier, digits: Data) -> None:
    assert clone(fitted).get_params() == fitted.get_params()
    stored = pickle.dumps(fitted)
    assert len(stored) < 40_000
    again = pickle.loads(stored)
    assert np.array_equal(again.predict_proba(digits[0][:20]), fitted.predict_proba(digits[0][:20]))


def test_labels_of_any_kind_and_colour_rows() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3 * 9 * 9))
    y = np.array(["cat", "dog"] * 6)
    made = ImageFlyNetClassifier(filters=16, sides=(3,), batches=2, random_state=0).fit(x, y)
    assert set(made.predict(x)) <= {"cat", "dog"}


@pytest.mark.parametrize(
    ("x", "shape", "message"),
    [
        (np.zeros((4, 7)), None, "rows of 7 values are no images"),
        (np.zeros((4, 64)), (8, 9), r"no images of shape \(8, 9\)"),
        (np.zeros(4), None, r"got \(4,\)"),
        (np.zeros((4, 5, 5)), None, "too small for filters"),
        (np.full((4, 12, 12), np.nan), None, "NaN"),
    ],
)
def test_what_is_no_image(x: np.ndarray, shape: tuple[int, int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageFlyNetClassifier(shape, filters=16, random_state=0).fit(x, [0, 1, 0, 1])
