"""The same images standardized in another way: a pretrained backbone needs the one it was trained with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.data.standardize import Scaling
from crwn.scenarios.pixel_map import PixelMap
from crwn.scenarios.scenario import Task


@dataclass(frozen=True)
class Rescaled:
    """Raw images, moved as the task moves them, to `(x - mean) / std` with one pair of numbers or one per channel."""

    moved: Callable[[Tensor], Tensor]
    scaling: Scaling

    def __call__(self, batch: Tensor) -> Tensor:
        mean, std = (torch.tensor(part, dtype=torch.float32).reshape(-1, 1, 1) for part in self.scaling)
        return (self.moved(batch).to(torch.float32) - mean) / std


def rescaled_rows(rows: Rows, scaling: Scaling) -> Rows:
    """These rows with their raw pixels standardized by `scaling`; rows of another kind are taken as they are."""
    if not isinstance(rows.prepare, PixelMap):
        return rows
    return replace(rows, prepare=Rescaled(rows.prepare.moved, scaling), standardized=True)


def rescaled(task: Task, scaling: Scaling) -> Task:
    """This task with its images standardized by `scaling`."""
    if not isinstance(task.train.prepare, PixelMap):
        return task
    train, test = rescaled_rows(task.train, scaling), rescaled_rows(task.test, scaling)
    return replace(task, train=train, test=test, scaling=scaling)
