"""The rows of several tasks as one set of rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crwn.data.dataset import Rows


@dataclass(frozen=True)
class JoinedRows(Rows):
    """The rows of `parts` one after another, each prepared and augmented as in its own part."""

    parts: tuple[Rows, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Rows]) -> JoinedRows:
        count = sum(len(part) for part in parts)
        augment = next((part.augment for part in parts if part.augment is not None), None)
        weight = None
        if any(part.weight is not None for part in parts):
            weight = torch.cat([torch.ones(len(part)) if part.weight is None else part.weight for part in parts])
        # x has the right length and occupies the memory of one value.
        return cls(torch.zeros(1).expand(count), augment=augment, weight=weight, parts=tuple(parts))

    def inputs(self, at: Tensor | slice, *, generator: np.random.Generator | None = None) -> Tensor:
        places, chosen = self._split(at)
        used = [(part, rows) for part, rows in zip(self.parts, chosen, strict=True) if len(rows)]
        return _placed([part.inputs(rows, generator=generator) for part, rows in used], places)

    def labels(self, at: Tensor | slice) -> Tensor:
        places, chosen = self._split(at)
        return _placed([part.labels(rows) for part, rows in zip(self.parts, chosen, strict=True)], places)

    def _split(self, at: Tensor | slice) -> tuple[Tensor, list[Tensor]]:
        """Positions within every part, and the places in the batch of the parts' rows one part after another."""
        positions = torch.arange(len(self))[at] if isinstance(at, slice) else at
        ends = torch.tensor(list(itertools.accumulate(len(part) for part in self.parts)))
        owner = torch.searchsorted(ends, positions, right=True)
        places = torch.argsort(owner, stable=True)
        starts = ends - torch.tensor([len(part) for part in self.parts])
        inside = (positions - starts[owner])[places]
        counts = torch.bincount(owner, minlength=len(self.parts)).tolist()
        return places, list(torch.split(inside, counts))


def _placed(parts: Sequence[Tensor], places: Tensor) -> Tensor:
    """The rows of the parts, one part after another, at these places of a batch."""
    joined = torch.cat(list(parts))
    out = torch.empty_like(joined)
    out[places] = joined
    return out
