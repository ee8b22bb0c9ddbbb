"""Estimate the angle of a task from its input context alone, to test whether contexts rotate with their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn.insight.meaning import circular_correlation, turn_between
from crwn.insight.measures import Matrix, standardize

SMOOTHING = 1.0  # pixels: single inputs are noisy, neighbourhoods are not


@dataclass(frozen=True)
class Turning:
    """How well the angles of tasks are estimated from their input contexts.

    Args:
        read: the estimated angle of each task, in degrees.
        correlation: circular correlation of the estimated angles with the true ones.
        median_error: in degrees; 90 by chance.
        common: the images rotated back by their angles and averaged.
    """

    read: npt.NDArray[np.float64]
    correlation: float
    median_error: float
    common: Matrix


def smoothed(images: Matrix) -> Matrix:
    """Images blurred by a Gaussian of one pixel, `[tasks, height, width]`."""
    from scipy.ndimage import gaussian_filter

    found: Matrix = gaussian_filter(images, sigma=(0.0, SMOOTHING, SMOOTHING))
    return found


def read_angles(images: Matrix, angles: Sequence[float]) -> Turning:
    """Estimate every task's angle from its image, given the images and angles of the others.

    The mean image is subtracted first. The others are rotated back by their angles and averaged; the task's image is
    rotated back by every candidate angle, and the one that matches this average best is the estimate.
    """
    from scipy.ndimage import rotate

    centred = smoothed(images)
    centred = centred - centred.mean(axis=0)
    candidates = sorted(set(angles))
    height, width = centred.shape[1:]
    y, x = np.mgrid[0:height, 0:width]
    disc = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) < min(height, width) / 2  # cut off by no rotation
    turned = np.stack(
        [[rotate(image, -angle, reshape=False, order=1) for angle in candidates] for image in centred]
    )  # [tasks, angles, height, width]
    upright = np.stack([turned[i, candidates.index(angle)] for i, angle in enumerate(angles)])
    read = np.zeros(len(centred))
    for i in range(len(centred)):
        others = standardize(np.delete(upright, i, axis=0).mean(axis=0)[disc])
        fits = [float(standardize(turned[i, k][disc]) @ others) for k in range(len(candidates))]
        read[i] = candidates[int(np.argmax(fits))]
    truth = np.asarray(angles, dtype=np.float64)
    error = float(np.median(turn_between(read, truth)))
    return Turning(read, circular_correlation(read, truth), error, upright.mean(axis=0))
