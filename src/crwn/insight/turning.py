"""Does the input context turn with the task? The angle of a task read off its input image alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn.insight.meaning import circular_correlation, turn_between
from crwn.insight.measures import Matrix

SMOOTHING = 1.0  # pixels: single inputs are noisy, places are not


@dataclass(frozen=True)
class Turning:
    """How well the angles of tasks are read off their input contexts.

    Args:
        read: the angle found for each task, in degrees.
        correlation: circular, of the angles found with the true ones.
        median_error: in degrees; 90 by chance.
        common: the images turned back by their angles and averaged: where the upright task looks.
    """

    read: npt.NDArray[np.float64]
    correlation: float
    median_error: float
    common: Matrix


def smoothed(images: Matrix) -> Matrix:
    """Images blurred a little, `[tasks, height, width]`."""
    from scipy.ndimage import gaussian_filter

    found: Matrix = gaussian_filter(images, sigma=(0.0, SMOOTHING, SMOOTHING))
    return found


def read_angles(images: Matrix, angles: Sequence[float]) -> Turning:
    """Read every task's angle off its image, knowing only the images and angles of the others.

    What all images share is taken off first. The others are turned back by their angles and averaged; the task's
    own image is turned back by every angle there is, and the one under which it matches that average best is read.
    """
    from scipy.ndimage import rotate

    own = smoothed(images)
    own = own - own.mean(axis=0)
    candidates = sorted(set(angles))
    height, width = own.shape[1:]
    y, x = np.mgrid[0:height, 0:width]
    disc = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) < min(height, width) / 2  # what no turn cuts off
    turned = np.stack(
        [[rotate(image, -angle, reshape=False, order=1) for angle in candidates] for image in own]
    )  # [tasks, angles, height, width]
    upright = np.stack([turned[i, candidates.index(angle)] for i, angle in enumerate(angles)])
    read = np.zeros(len(own))
    for i in range(len(own)):
        others = _standard(np.delete(upright, i, axis=0).mean(axis=0)[disc])
        fits = [float(_standard(turned[i, k][disc]) @ others) for k in range(len(candidates))]
        read[i] = candidates[int(np.argmax(fits))]
    truth = np.asarray(angles, dtype=np.float64)
    error = float(np.median(turn_between(read, truth)))
    return Turning(read, circular_correlation(read, truth), error, upright.mean(axis=0))


def _standard(values: Matrix) -> Matrix:
    found: Matrix = (values - values.mean()) / (values.std() or 1.0)
    return found
