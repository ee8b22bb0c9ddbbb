"""A process that forks while its threads predict: the child predicts the same, or is told why it cannot."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crwn import Learner, NeuroModNet
from crwn.contexts import forking
from crwn.contexts.forking import ForkSafeLock, Protects
from digit_rows import Data

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # Python 3.12 warns of every fork of a process with threads, which is what is tested here.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
HANGS = 30  # seconds after which a child counts as one that hangs


def in_child(work: Callable[[], bool]) -> str:
    """What became of `work` in a forked child: "right", "wrong", "refused" or "hangs"."""
    child = os.fork()
    if not child:
        signal.alarm(HANGS)
        code = 3
        try:
            code = 0 if work() else 1
        except Exception:
            code = 2
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return "hangs" if os.WIFSIGNALED(status) else ["right", "wrong", "refused", "exit"][os.WEXITSTATUS(status)]


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_children_predict_while_the_parent_does(place: str, digits: Data, tmp_path: Path) -> None:
    x, y = digits
    folder = tmp_path / "model.crwn" if place == "folder" else None
    ending = threading.Event()
    with Learner(NeuroModNet(64, (128, 128), 10, seed=0), bank=folder) as learner:
        for task in ("left", "right"):
            learner.learn(task, x, y, batches=3, progress=False)
        wanted = learner.predict(x, "left")
        learner.predict(x, "right")

        def go(task: str) -> None:
            while not ending.is_set():
                learner.predict(x, task)

        threads = [threading.Thread(target=go, args=(task,)) for task in ("left", "right") * 2]
        for thread in threads:
            thread.start()
        try:
            found = [in_child(lambda: np.array_equal(learner.predict(x, "left"), wanted)) for _ in range(8)]
        finally:
            ending.set()
            for thread in threads:
                thread.join()
    assert found == ["right"] * 8


def test_a_lock_that_is_held_too_long_is_refused_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "FORK_SECONDS", 0.2)
    lock, inside, ending = ForkSafeLock(Protects.MODEL), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            ending.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)

    def use() -> bool:
        with lock:
            return True

    found = in_child(use)
    ending.set()
    thread.join()
    assert found == "refused"
    assert use()


def test_a_thread_that_forks_keeps_its_own_lock() -> None:
    lock = ForkSafeLock(Protects.BANK)
    with lock:

        def work() -> bool:
            with lock:
                return True

        assert in_child(work) == "right"
    assert in_child(work) == "right"
