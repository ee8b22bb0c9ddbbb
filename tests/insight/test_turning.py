"""Angles read off images that turn."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import rotate

from crwn.insight.turning import read_angles


def test_angles_are_read_off_images_that_turn_and_not_off_others() -> None:
    generator = np.random.default_rng(0)
    upright = np.zeros((28, 28))
    upright[5:12, 16:20] = 1.0
    angles = [float(a) for a in range(0, 360, 20)]
    turned = np.stack([rotate(upright, a, reshape=False, order=1) for a in angles])
    found = read_angles(turned + generator.normal(0, 0.3, turned.shape), angles)
    assert found.correlation > 0.95
    assert found.median_error == 0
    assert found.common.shape == (28, 28)
    nothing = read_angles(generator.normal(0, 1, turned.shape), angles)
    assert abs(nothing.correlation) < 0.6
    assert nothing.median_error > 20
