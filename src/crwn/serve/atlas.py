"""The map of contexts: alike contexts lie together."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from crwn.learner import Learner
from crwn.serve.schemas import Atlas, AtlasPoint
from crwn.similarity import centred_cosine, flatten

_LOOKED_THROUGH = 10_000


def classical_scaling(alike: Tensor) -> tuple[Tensor, float]:
    """Classical multidimensional scaling of similarities `[n, n]`: places `[n, 2]` in -1..1, and the share shown.

    With `D² = 2 - 2 cos` the doubly centred matrix is `J cos J`, whose two largest eigenvectors are the map.
    """
    count = len(alike)
    if count < 2:
        return torch.zeros(count, 2), 1.0
    gram = alike.double()
    gram = gram - gram.mean(dim=0, keepdim=True)
    gram = gram - gram.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    places = vectors[:, :2] * values[:2].sqrt()
    # An eigenvector has two signs: fix one, so that the same contexts always give the same map.
    sign = torch.sign(places.gather(0, places.abs().argmax(dim=0, keepdim=True)))
    places = places * torch.where(sign == 0, 1.0, sign)
    share = float(values[:2].sum() / values.sum().clamp_min(1e-12))
    return (places / places.abs().max().clamp_min(1e-12)).float(), min(1.0, share)


class AtlasMaker:
    """Makes the map when asked, and keeps it until the bank changes."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._lock = threading.Lock()
        self._made: tuple[tuple[int, int], Atlas] | None = None

    def make(self, most: int) -> Atlas:
        key = (self.learner.bank.marker(), most)
        with self._lock:
            if self._made is None or self._made[0] != key:
                self._made = (key, self._make(most))
            return self._made[1]

    def _make(self, most: int) -> Atlas:
        bank = self.learner.bank
        names = bank.names(limit=_LOOKED_THROUGH)
        total = len(bank)
        if len(names) > most:
            names = [names[round(i * (len(names) - 1) / max(1, most - 1))] for i in range(most)]
        if not names:
            return Atlas(points=[], explained=1.0, total=total)
        alike = centred_cosine(flatten([context.tensors for context in bank.get_many(names)]))
        places, share = classical_scaling(alike)
        alike.fill_diagonal_(-2.0)
        values, rows = alike.max(dim=1)
        points = [
            AtlasPoint(
                task=name,
                x=round(float(places[i, 0]), 4),
                y=round(float(places[i, 1]), 4),
                nearest=names[int(rows[i])] if len(names) > 1 else None,
                similarity=round(float(values[i]), 4) if len(names) > 1 else None,
            )
            for i, name in enumerate(names)
        ]
        return Atlas(points=points, explained=round(share, 4), total=total)
