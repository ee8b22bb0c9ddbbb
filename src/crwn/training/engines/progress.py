"""What workers report: the steps of their work to the caller's callbacks, and why a piece failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from crwn.errors import CRWNError
from crwn.training.loop import Callback, Step

REPORT_SECONDS = 0.25

Steps = list[tuple[int, int, tuple[str, ...], list[float], float]]  # step, steps, names, losses, rate


class StepReporter:
    """A callback that runs in a worker: gathers steps and sends them a few times a second.

    Args:
        send: takes how many steps were sent before, and the new ones.
    """

    def __init__(self, send: Callable[[int, Steps], None]) -> None:
        self.send = send
        self.steps: Steps = []
        self.sent = 0
        self.last = time.monotonic()

    def __call__(self, step: Step) -> None:
        self.steps.append((step.step, step.steps, step.names, step.losses.tolist(), step.rate))
        if time.monotonic() - self.last > REPORT_SECONDS:
            self.send(self.sent, self.steps[self.sent :])
            self.sent = len(self.steps)
            self.last = time.monotonic()


class StepForwarder:
    """Passes the steps that workers report on to callbacks, each step of a piece once and in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks
        self._next: dict[int, int] = {}  # of every piece, the position of the step that comes next

    def forward(self, piece: int, first: int, steps: Steps) -> None:
        """Call the callbacks for those of these steps, of a piece from position `first` on, that were not reported yet.

        Work that is repeated after a worker died repeats steps, and a lost report leaves a gap: steps that are not
        passed on now are passed on when all of them come with the result.
        """
        for place, (step, total, names, losses, rate) in enumerate(steps, start=first):
            if place == self._next.get(piece, 0):
                self._next[piece] = place + 1
                for callback in self.callbacks:
                    callback(Step(step, total, names, torch.tensor(losses), rate, {}))


def worker_failed(error: object) -> CRWNError:
    """The error that the caller gets for one raised in a worker: crwn's own as it is."""
    return error if isinstance(error, CRWNError) else CRWNError(f"a worker failed: {error!r}")


def workers_died(times: int, why: str) -> CRWNError:
    """The error for work whose worker died every time."""
    return CRWNError(
        f"workers died {times} times over the same work ({why}): give them more memory, or learn with engine local"
    )
