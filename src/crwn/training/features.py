"""Features of a task's rows, computed once by the model's encoder and kept for all epochs, tasks and runs.

`encoded(model, rows)` returns the head of the model and the rows as features, for any function that takes a model and
rows; a model without an encoder of this kind is returned as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.data.feature_cache import cached_features
from crwn.data.progress import Progress, silent
from crwn.models import EncodedNetwork
from crwn.training.task import PreparedTask

BLOCK = 500  # rows that are encoded and written at once


def encoded(model: nn.Module, rows: Rows, *, progress: Progress = silent) -> tuple[nn.Module, Rows]:
    """The head of the model and the features of these rows as predictions use them, in float32.

    >>> from crwn.models import ImageFlyNet
    >>> model = ImageFlyNet((1, 12, 12), classes=2, seed=0, filters=16)
    >>> head, features = encoded(model, Rows(torch.rand(3, 1, 12, 12)))
    >>> features.inputs(slice(None)).shape
    torch.Size([3, 288])
    """
    if not isinstance(model, EncodedNetwork) or not len(rows):
        return model, rows
    return model.head, _features(model, rows, copies=None, dtype=torch.float32, progress=progress)


def encoded_task(
    model: nn.Module, task: PreparedTask, *, progress: Progress = silent
) -> tuple[nn.Module, PreparedTask]:
    """The head and the task with features for rows: of every training row the copies that the model asks for.

    Training rows are kept in float16, which halves their space: rounding is far below what augmentation changes.
    """
    if not isinstance(model, EncodedNetwork):
        return model, task
    rows = _features(model, task.rows, copies=model.copies, dtype=torch.float16, progress=progress)
    held = None if task.validation is None else encoded(model, task.validation, progress=progress)[1]
    return model.head, replace(task, rows=rows, validation=held)


def encoded_stack(model: nn.Module, x: Tensor, scaling: Tensor) -> tuple[nn.Module, Tensor]:
    """The head, and features of the same rows as several tasks scale them, `[tasks, rows, ...]`.

    Tasks with equal entries of `scaling`, `[tasks, ...]`, share their features.
    """
    if not isinstance(model, EncodedNetwork):
        return model, x
    _, at = torch.unique(scaling.flatten(1), dim=0, return_inverse=True)
    first = [int((at == number).nonzero()[0]) for number in range(int(at.max()) + 1)]
    features = model.encode(x[first])
    return model.head, features.expand(len(x), -1, -1) if len(first) == 1 else features[at]


def _features(model: EncodedNetwork, rows: Rows, *, copies: int | None, dtype: torch.dtype, progress: Progress) -> Rows:
    """Rows of features, copy after copy; without copies those that predictions use."""
    plain = rows.without_augmentation()
    kind = None if copies is None else model.copies_key
    low = ":bf16" if torch.is_autocast_enabled("cpu") else ""
    digest = hashlib.sha256(f"{model.encoder_fingerprint}:{kind}:{dtype}{low}".encode())
    for batch in plain.batches(BLOCK):
        digest.update(f"{tuple(batch.shape)}".encode())
        digest.update(batch.contiguous().numpy().data)
    count = copies or 1

    def compute() -> Iterator[Tensor]:
        done, total = 0, count * len(rows)
        for number in range(count):
            for batch in plain.batches(BLOCK):
                yield model.encode(batch) if copies is None else model.encode_copy(batch, number)
                done += len(batch)
                progress("features of images", done, total)

    x = cached_features(digest.hexdigest(), (count * len(rows), model.features), compute, dtype=dtype)
    y = None if rows.y is None else rows.y.repeat(count)
    weight = None if rows.weight is None else rows.weight.repeat(count)
    return Rows(x, y, weight=weight, standardized=True)
