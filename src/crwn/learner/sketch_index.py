"""The sketches of all tasks of a bank in one tensor, to find the likeliest tasks without reading their contexts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crwn.contexts.bank import Bank
from crwn.contexts.bank.interface import Entry
from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.contexts.sketch import SIZE, mean_distances, open_sketches
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling, stack_scalings

PAGE = 1000  # entries read from the bank, and distances computed, at a time
# Tasks without a sketch are tried one by one, so only so many of them count.
MOST_WITHOUT = 1024


class SketchIndex:
    """Sketches and scalings of all tasks; reads what has changed in the bank whenever it is used. Safe with threads."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._lock = ForkSafeLock(Protects.SKETCHES)
        self._marker: int | None = None
        self._row: dict[str, int] = {}
        self._names: list[str] = []
        self._scalings: list[Scaling] = []
        self._means = torch.full((PAGE, SIZE), torch.nan)  # NaN where a task has no valid sketch

    def __len__(self) -> int:
        return len(self._names)

    def likely(self, rows: Rows, keep: int) -> list[str]:
        """The `keep` tasks whose training rows are most similar to these, and up to `MOST_WITHOUT` without a sketch."""
        x = rows.inputs(slice(None))
        with self._lock:
            self._update()
            far = torch.cat([self._distances(x, at, rows.standardized) for at in range(0, len(self), PAGE)])
            unknown = far.isnan()
            known = (~unknown).nonzero()[:, 0]
            best = known[far[known].topk(min(keep, len(known)), largest=False).indices]
            without = unknown.nonzero()[:MOST_WITHOUT, 0]
            return [self._names[i] for i in [*best.tolist(), *without.tolist()]]

    def _distances(self, x: Tensor, at: int, standardized: bool) -> Tensor:
        end = min(at + PAGE, len(self))
        scalings = [NO_SCALING] * (end - at) if standardized else self._scalings[at:end]
        return mean_distances(x, self._means[at:end], stack_scalings(scalings))

    def _update(self) -> None:
        if self._marker is None:
            self._marker, after = self.bank.marker(), None  # before reading, so that no change is missed
            while page := self.bank.entries(after=after, limit=PAGE):
                self._put(page)
                after = page[-1].name
        while True:
            changes, self._marker = self.bank.changes_since(self._marker)
            if not changes:
                return
            for change in changes:
                # Entries come in the order of their names: of those with this prefix, the name itself is the first.
                found = [] if change.version is None else self.bank.entries(change.name, limit=1)
                if found and found[0].name == change.name:
                    self._put(found)
                else:
                    self._remove(change.name)

    def _put(self, entries: Sequence[Entry]) -> None:
        known, means = open_sketches([entry.info.sketch for entry in entries])
        opened = dict(zip(known, means, strict=True))
        for i, entry in enumerate(entries):
            row = self._row.get(entry.name)
            if row is None:
                row = self._row[entry.name] = len(self)
                self._names.append(entry.name)
                self._scalings.append(NO_SCALING)
                if row == len(self._means):
                    self._means = torch.cat([self._means, torch.full_like(self._means, torch.nan)])
            self._scalings[row] = entry.info.scaling
            self._means[row] = opened.get(i, torch.nan)

    def _remove(self, name: str) -> None:
        row = self._row.pop(name, None)
        if row is None:
            return
        last, scaling = self._names.pop(), self._scalings.pop()
        if last != name:
            self._names[row], self._scalings[row], self._row[last] = last, scaling, row
            self._means[row] = self._means[len(self)]
