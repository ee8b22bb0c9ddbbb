"""How the steps of a worker reach the callbacks of the process that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from crwn.training import Callback, Step

TELL_SECONDS = 0.25

Steps = list[tuple[int, int, tuple[str, ...], list[float], float]]  # step, steps, names, losses, rate


class Teller:
    """A callback on a worker: gathers steps and sends them a few times a second.

    Args:
        send: takes how many steps were sent before, and those that are new.
    """

    def __init__(self, send: Callable[[int, Steps], None]) -> None:
        self.send = send
        self.steps: Steps = []
        self.sent = 0
        self.last = time.monotonic()

    def __call__(self, step: Step) -> None:
        self.steps.append((step.step, step.steps, step.names, step.losses.tolist(), step.rate))
        if time.monotonic() - self.last > TELL_SECONDS:
            self.send(self.sent, self.steps[self.sent :])
            self.sent = len(self.steps)
            self.last = time.monotonic()


def tell_new(told: dict[int, int], callbacks: Sequence[Callback], number: int, first: int, steps: Steps) -> None:
    """Tell the steps of a piece, of which these are those from `first` on, that follow what has been told of it.

    Work that is done again after a death repeats some, and a report that was lost leaves a gap: what is not told now is
    told when all steps come with the result.
    """
    for place, (step, total, names, losses, rate) in enumerate(steps, start=first):
        if place == told.get(number, 0):
            told[number] = place + 1
            for callback in callbacks:
                callback(Step(step, total, names, torch.tensor(losses), rate, {}))
