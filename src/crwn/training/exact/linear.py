"""A context in closed form where a decoder has so many gains that it is any linear classifier of frozen features.

Ridge regression then has one unknown matrix W `[classes, features]` instead of one system for all gains. With few rows
it is solved through the products of rows, K = H H^T:

    W = Y^T (K + ridge * k * I)^-1 H,   k the mean diagonal of K, Y one-hot classes minus their mean.

The ridge is the one of least squared error when every row is predicted by all others, which the same inverse yields
without learning again. For every feature, its gains v solve `R v = W` up to what all classes have in common.
"""

from __future__ import annotations

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.errors import DataError, ModelError
from crwn.layers import ModulatedLinear
from crwn.models.encoded import DecoderHead
from crwn.training.features import encoded_task
from crwn.training.loop import Learned
from crwn.training.task import PreparedTask

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3)  # relative to the mean diagonal
MOST_ROWS = 6000  # whose products are computed; with more, these choose the ridge and sums over features solve
BLOCK = 1000
NARROWEST, WIDEST = 1e-2, 1e3  # of the factor that turns answers into logits


def is_linear(model: nn.Module, classes: int) -> bool:
    """Whether a task of so many classes can learn any linear classifier of the model's features."""
    gains = getattr(model, "gains", 0)
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, ModulatedLinear):
        return False
    learned = {name for name, _ in decoder.named_parameters()}
    return {"v", "alpha"} <= learned and 0 < classes - 1 <= gains


def learn_linear(model: nn.Module, task: PreparedTask) -> Learned:
    """Learn one task in closed form.

    Raises:
        ModelError: the decoder has too few gains for the classes of the task.
        DataError: there are too few rows, or features that are not finite.
    """
    began = time.perf_counter()
    if not is_linear(model, task.classes):
        raise ModelError(
            f'task "{task.name}" has {task.classes} classes: the decoder needs one gain less for every feature'
        )
    head, ready = encoded_task(model, task)
    assert isinstance(head, DecoderHead)
    if len(ready.rows) < 2:
        raise DataError(f'task "{task.name}" has {len(ready.rows)} rows: a closed form needs at least two')
    wanted = F.one_hot(ready.rows.labels(slice(None)), task.classes).double() - 1 / task.classes
    some = torch.arange(0, len(ready.rows), -(-len(ready.rows) // MOST_ROWS))
    h = ready.rows.inputs(some)
    if not bool(torch.isfinite(h).all()):
        raise DataError(f'features of task "{task.name}" are not finite: check its images')
    ridge, coefficients, left_out, residual = _by_products(h, wanted[some])
    if len(some) == len(ready.rows):
        weights = coefficients.T.float() @ h
    else:
        weights = _by_features(ready.rows, wanted, ridge)
    tensors = {
        "decoder.v": _gains(head, weights.double()),
        "decoder.alpha": torch.tensor(_factor(left_out, ready.rows.labels(some)), dtype=torch.float32),
    }
    return Learned(task.name, tensors, 0, residual, time.perf_counter() - began)


def _by_products(h: Tensor, wanted: Tensor) -> tuple[float, Tensor, Tensor, float]:
    """Ridge, coefficients `[rows, classes]`, answers for rows that were left out, and their mean squared error."""
    products = (h @ h.T).double()
    size = float(products.diagonal().mean()) or 1.0
    best: tuple[float, Tensor, Tensor, float] | None = None
    for ridge in RIDGES:
        system = products + ridge * size * torch.eye(len(h), dtype=torch.float64)
        factor = torch.linalg.cholesky(system)
        coefficients = torch.cholesky_solve(wanted, factor)
        missed = coefficients / torch.cholesky_inverse(factor).diagonal()[:, None]
        error = float(missed.square().sum(dim=1).mean())
        if best is None or error < best[3]:
            best = ridge, coefficients, wanted - missed, error
    assert best is not None
    return best


def _by_features(rows: Rows, wanted: Tensor, ridge: float) -> Tensor:
    """W from sums over all rows, `[classes, features]`."""
    width = rows.inputs(slice(0, 1)).shape[1]
    squares, right = torch.zeros(width, width), torch.zeros(width, wanted.shape[1])
    for start in range(0, len(rows), BLOCK):
        h = rows.inputs(slice(start, start + BLOCK))
        squares.addmm_(h.T, h)
        right.addmm_(h.T, wanted[start : start + BLOCK].float())
    size = float(squares.diagonal().sum()) / len(rows)
    squares.diagonal().add_(ridge * size)
    return torch.cholesky_solve(right, torch.linalg.cholesky(squares)).T


def _gains(head: DecoderHead, weights: Tensor) -> Tensor:
    """v `[gains * features]` with which the decoder answers as these weights do, the same for all classes aside."""
    classes, width = weights.shape
    frozen = head.decoder.frozen.dense().double()[:classes].view(classes, head.gains, width).permute(2, 0, 1)
    frozen = frozen - frozen.mean(dim=1, keepdim=True)  # [features, classes, gains]
    centred = (weights - weights.mean(dim=0)).T[..., None]
    v: Tensor = (torch.linalg.pinv(frozen) @ centred)[..., 0]  # [features, gains]
    return v.T.reshape(-1).float()


def _factor(answers: Tensor, labels: Tensor) -> float:
    """What answers are multiplied by so that their softmax has the least cross-entropy: a golden-section search."""

    def loss(position: float) -> float:
        return float(F.cross_entropy(math.exp(position) * answers, labels))

    low, high = math.log(NARROWEST), math.log(WIDEST)
    share = (math.sqrt(5) - 1) / 2
    while high - low > 1e-3:
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)
