"""Work done here, one piece after another."""

from __future__ import annotations

from collections.abc import Sequence

from crwn.engine.work import Done, Work
from crwn.training import Callback


class LocalEngine:
    """Does work in this process, in order."""

    def run(self, work: Sequence[Work], *, callbacks: Sequence[Callback] = ()) -> Done:
        for number, piece in enumerate(work):
            yield number, piece.do(callbacks)
