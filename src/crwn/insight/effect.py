"""How alike contexts are in what they do: the outputs they give to the same smooth random inputs.

Learning leaves noise in a context along directions that hardly change the outputs, and the cosine of contexts counts
that noise in full. Outputs do not. The inputs are random, so no data of any task is needed; they are smooth like
images, because plain noise is averaged away by the first layer and tells little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from crwn.insight.measures import Matrix, cosine
from crwn.prediction import predict_logits
from crwn.rows import Rows, named_generator

PROBES = 512
IMAGE_PROBES = 64  # convolutions cost more a row, and see many places of each


def probe_rows(shape: Sequence[int], count: int, *, seed: int = 0) -> Tensor:
    """Random inputs of unit variance, `[count, *shape]`: smooth where the shape is, or may be, that of an image."""
    from scipy.ndimage import gaussian_filter

    noise = named_generator("probes", seed).standard_normal((count, *shape))
    side = math.isqrt(shape[0]) if len(shape) == 1 else min(shape[-2:])
    if len(shape) == 1 and (side * side != shape[0] or side < 4):
        return torch.from_numpy(noise.astype(np.float32))
    images = noise.reshape(count, side, side) if len(shape) == 1 else noise
    width = side / 14  # two pixels of MNIST, the width of a stroke
    blurred = gaussian_filter(images, sigma=[0.0] * (images.ndim - 2) + [width, width])
    smooth = (blurred / blurred.std()).reshape(count, *shape)
    return torch.from_numpy(smooth.astype(np.float32))


def effects(model: nn.Module, contexts: Sequence[Mapping[str, Tensor]], *, seed: int = 0) -> Tensor:
    """What each context makes of the same inputs, `[tasks, numbers]`: logits, without the mean that softmax ignores."""
    shape = tuple(getattr(model, "input_shape"))  # noqa: B009
    rows = Rows(probe_rows(shape, PROBES if len(shape) == 1 else IMAGE_PROBES, seed=seed))
    found = []
    for context in contexts:
        logits = predict_logits(model, context, rows)
        found.append((logits - logits.mean(dim=1, keepdim=True)).flatten())
    return torch.stack(found)


def effect_similarity(model: nn.Module, contexts: Sequence[Mapping[str, Tensor]], *, seed: int = 0) -> Matrix:
    """Cosine of the effects of every pair of contexts, the mean effect taken off, `[tasks, tasks]`."""
    return cosine(effects(model, contexts, seed=seed))
