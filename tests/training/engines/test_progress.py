"""Steps that workers report: sent in parts, passed on once and in order."""

from __future__ import annotations

import pytest
import torch

from crwn.errors import CRWNError, DataError
from crwn.training import Step
from crwn.training.engines.progress import (
    REPORT_SECONDS,
    StepForwarder,
    StepReporter,
    Steps,
    worker_failed,
    workers_died,
)


def some_steps(first: int, last: int) -> Steps:
    return [(step, 9, ("a", "b"), [0.5, float(step)], 0.1) for step in range(first, last + 1)]


def test_a_reporter_sends_each_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    sent: list[tuple[int, Steps]] = []
    reporter = StepReporter(lambda before, steps: sent.append((before, steps)))
    for step in range(1, 10):
        now += REPORT_SECONDS / 2.5  # every third step is late enough
        reporter(Step(step, 9, ("a", "b"), torch.tensor([0.5, float(step)]), 0.1, {}))
    assert sent == [(0, some_steps(1, 3)), (3, some_steps(4, 6)), (6, some_steps(7, 9))]
    assert reporter.steps == some_steps(1, 9)


def test_a_forwarder_passes_steps_on_once_and_in_order() -> None:
    seen: list[tuple[str, int]] = []
    forwarder = StepForwarder([lambda step: seen.append((step.names[0], step.step))])
    forwarder.forward(0, 0, some_steps(1, 3))
    forwarder.forward(0, 5, some_steps(6, 7))  # a report is missing
    forwarder.forward(0, 0, some_steps(1, 2))  # another worker begins the piece again
    assert seen == [("a", 1), ("a", 2), ("a", 3)]
    forwarder.forward(0, 0, some_steps(1, 9))  # all steps come with the result
    assert seen == [("a", step) for step in range(1, 10)]
    forwarder.forward(1, 0, some_steps(1, 1))
    assert len(seen) == 10, "every piece is counted for itself"


def test_losses_come_back_as_tensors() -> None:
    seen: list[Step] = []
    StepForwarder([seen.append]).forward(0, 0, some_steps(4, 4))
    assert torch.equal(seen[0].losses, torch.tensor([0.5, 4.0]))
    assert (seen[0].steps, seen[0].names, seen[0].rate) == (9, ("a", "b"), 0.1)


def test_errors_of_workers() -> None:
    ours = DataError("row 3 has NaN")
    assert worker_failed(ours) is ours
    assert str(worker_failed(ZeroDivisionError("by zero"))) == "a worker failed: ZeroDivisionError('by zero')"
    assert isinstance(workers_died(3, "killed"), CRWNError)
    assert "workers died 3 times over the same work (killed)" in str(workers_died(3, "killed"))
