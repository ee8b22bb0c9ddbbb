"""Work done in this process, one piece after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crwn.training.engines.work import Result, Work
from crwn.training.loop import Callback


class LocalEngine:
    """Does work in this process, in order."""

    def run(self, work: Sequence[Work[Result]], *, callbacks: Sequence[Callback] = ()) -> Iterator[tuple[int, Result]]:
        for position, piece in enumerate(work):
            yield position, piece.do(callbacks)
