"""The map of contexts: similar contexts lie close together."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from crwn.contexts.bank import get_readable
from crwn.contexts.similarity import centred_cosine, flatten
from crwn.learner import Learner
from crwn.serve.schemas import Atlas, AtlasPoint

_MOST_NAMES = 10_000  # read from the bank to choose the tasks on the map from


def classical_scaling(similarity: Tensor) -> tuple[Tensor, float]:
    """Classical multidimensional scaling of cosines `[n, n]`: positions `[n, 2]` in -1..1, and the share they explain.

    With `D² = 2 - 2 cos` the doubly centred matrix is `J cos J`, whose two largest eigenvectors are the map.
    """
    count = len(similarity)
    if count < 2:
        return torch.zeros(count, 2), 1.0
    gram = similarity.double()
    gram = gram - gram.mean(dim=0, keepdim=True)
    gram = gram - gram.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    positions = vectors[:, :2] * values[:2].sqrt()
    # The sign of an eigenvector is arbitrary: fixed here, so that the same contexts always give the same map.
    sign = torch.sign(positions.gather(0, positions.abs().argmax(dim=0, keepdim=True)))
    positions = positions * torch.where(sign == 0, 1.0, sign)
    share = float(values[:2].sum() / values.sum().clamp_min(1e-12))
    return (positions / positions.abs().max().clamp_min(1e-12)).float(), min(1.0, share)


class AtlasMaker:
    """Computes the map on request and caches it until the bank changes."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._lock = threading.Lock()
        self._made: tuple[tuple[int, int], Atlas] | None = None

    def make(self, most: int) -> Atlas:
        """The map of at most this many tasks, spread evenly over all names."""
        key = (self.learner.bank.marker(), most)
        with self._lock:
            if self._made is None or self._made[0] != key:
                self._made = (key, self._make(most))
            return self._made[1]

    def _make(self, most: int) -> Atlas:
        bank = self.learner.bank
        names = bank.names(limit=_MOST_NAMES)
        total = len(bank)
        if len(names) > most:
            names = [names[round(i * (len(names) - 1) / max(1, most - 1))] for i in range(most)]
        if not names:
            return Atlas(points=[], explained=1.0, total=total)
        contexts, _ = get_readable(bank, names)  # a damaged task is left out
        names = [context.name for context in contexts]
        similarity = centred_cosine(flatten([context.tensors for context in contexts]))
        positions, share = classical_scaling(similarity)
        similarity.fill_diagonal_(-2.0)
        values, nearest = similarity.max(dim=1)
        points = [
            AtlasPoint(
                task=name,
                x=round(float(positions[i, 0]), 4),
                y=round(float(positions[i, 1]), 4),
                nearest=names[int(nearest[i])] if len(names) > 1 else None,
                similarity=round(float(values[i]), 4) if len(names) > 1 else None,
            )
            for i, name in enumerate(names)
        ]
        return Atlas(points=points, explained=round(share, 4), total=total)
