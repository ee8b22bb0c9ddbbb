"""Similarity of contexts by their outputs for the same smooth random inputs.

Training leaves noise in a context along directions that hardly change the outputs. The cosine of contexts counts that
noise in full; the cosine of outputs does not. The inputs are random, so no data of any task is needed; they are smooth
like images, because the first layer averages white noise away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.errors import ModelError
from crwn.insight.measures import Matrix, cosine
from crwn.layers.weights import named_generator
from crwn.models import network_of
from crwn.training.evaluation import predict_logits

PROBES = 512
IMAGE_PROBES = 64  # convolutions cost more per row, and see many positions of each


def probe_rows(shape: Sequence[int], count: int, *, seed: int = 0) -> Tensor:
    """Random inputs of unit variance, `[count, *shape]`, smooth if the shape is, or may be, that of an image."""
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
    """Logits of each context for the same inputs, `[tasks, rows * classes]`, minus the mean that softmax ignores."""
    shape = network_of(model).input_shape
    if shape is None:
        raise ModelError("this module does not declare the shape of its rows: set module.input_shape")
    rows = Rows(probe_rows(shape, PROBES if len(shape) == 1 else IMAGE_PROBES, seed=seed))
    found = []
    for context in contexts:
        logits = predict_logits(model, context, rows)
        found.append((logits - logits.mean(dim=1, keepdim=True)).flatten())
    return torch.stack(found)


def effect_similarity(model: nn.Module, contexts: Sequence[Mapping[str, Tensor]], *, seed: int = 0) -> Matrix:
    """Cosine of the effects of every pair of contexts after subtracting the mean effect, `[tasks, tasks]`."""
    return cosine(effects(model, contexts, seed=seed))
