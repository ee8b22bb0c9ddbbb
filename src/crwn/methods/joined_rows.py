"""Rows of several tasks as one: all of them together, or new rows that bring rows of a buffer along."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crwn.rows import Rows


@dataclass(frozen=True)
class JoinedRows(Rows):
    """The rows of several tasks as one: every row is still prepared the way of its own task."""

    parts: tuple[Rows, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Rows]) -> JoinedRows:
        count = sum(len(part) for part in parts)
        augment = next((part.augment for part in parts if part.augment is not None), None)
        weight = None
        if any(part.weight is not None for part in parts):
            weight = torch.cat([torch.ones(len(part)) if part.weight is None else part.weight for part in parts])
        # x only says how many rows there are: it takes the memory of one number.
        return cls(torch.zeros(1).expand(count), augment=augment, weight=weight, parts=tuple(parts))

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        places, chosen = self._split(at)
        first = [
            part.inputs(rows, generator=generator) for part, rows in zip(self.parts, chosen, strict=True) if len(rows)
        ]
        joined = torch.cat(first)
        out = torch.empty_like(joined)
        out[places] = joined
        return out

    def labels(self, at: Tensor | slice) -> Tensor:
        places, chosen = self._split(at)
        joined = torch.cat([part.labels(rows) for part, rows in zip(self.parts, chosen, strict=True)])
        out = torch.empty_like(joined)
        out[places] = joined
        return out

    def _split(self, at: Tensor | slice) -> tuple[Tensor, list[Tensor]]:
        """Positions in every part, and where in the batch the parts' rows, one part after another, belong."""
        positions = torch.arange(len(self))[at] if isinstance(at, slice) else at
        ends = torch.tensor(list(itertools.accumulate(len(part) for part in self.parts)))
        owner = torch.searchsorted(ends, positions, right=True)
        places = torch.argsort(owner, stable=True)
        starts = ends - torch.tensor([len(part) for part in self.parts])
        inside = (positions - starts[owner])[places]
        counts = torch.bincount(owner, minlength=len(self.parts)).tolist()
        return places, list(torch.split(inside, counts))


@dataclass(frozen=True)
class MixedRows(Rows):
    """New rows, each bringing a partner from the buffer along: a batch of n positions has 2n rows."""

    buffer: Rows | None = None
    partners: Tensor | None = None  # [rows]: fixed, so that a batch depends on nothing but its positions

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        buffer, partners = self._earlier()
        new = super().inputs(at, generator=generator)
        return torch.cat([new, buffer.inputs(partners[at], generator=generator)])

    def labels(self, at: Tensor | slice) -> Tensor:
        buffer, partners = self._earlier()
        return torch.cat([super().labels(at), buffer.labels(partners[at])])

    def _earlier(self) -> tuple[Rows, Tensor]:
        assert self.buffer is not None
        assert self.partners is not None
        return self.buffer, self.partners
