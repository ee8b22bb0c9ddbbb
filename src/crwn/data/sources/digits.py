"""Digits: the 1,797 images of 8 x 8 pixels that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from crwn.data.image_set import Arrays, hold_out
from crwn.data.progress import Progress

MEAN, STD = (0.3053,), (0.3759,)


def digits(progress: Progress) -> Arrays:
    """The digits with their 16 grey levels scaled to 0...255; a fifth of every class is held out for testing."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = np.rint(bunch.images * (255 / 16)).astype(np.uint8)  # [1797, 8, 8]
    y = bunch.target.astype(np.int64)
    train, test = hold_out(y, key="digits")
    progress("digits", len(x), len(x))
    return Arrays(x[train], y[train], x[test], y[test], tuple(range(10)), "scikit-learn", MEAN, STD)
