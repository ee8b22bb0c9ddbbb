"""A real service on a loopback port, with two small tasks of real digits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.limits import Limits
from crwn.serve.running import Server, make_server, open_socket

Array = npt.NDArray[Any]


@dataclass
class Running:
    """A service under test."""

    address: str
    learner: Learner
    server: Server
    thread: threading.Thread

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive(), "the service did not stop"


@contextmanager
def running(learner: Learner, **settings: Any) -> Iterator[Running]:
    """Serve this learner from a thread on a free port."""
    server = make_server(learner, port=0, **settings)
    with open_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until = time.monotonic() + 30
        while not server.started:
            assert time.monotonic() < until, "the service did not start"
            time.sleep(0.01)
        served = Running(f"http://127.0.0.1:{listening.getsockname()[1]}", learner, server, thread)
        try:
            yield served
        finally:
            served.stop()


@pytest.fixture(scope="session")
def digits() -> tuple[Array, Array]:
    """Real handwritten digits, 8 x 8, as rows of 64 numbers."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data.astype(np.float32), data.target.astype(np.int64)


def mirrored(x: Array) -> Array:
    return np.ascontiguousarray(x.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64))


@pytest.fixture(scope="session")
def taught(digits: tuple[Array, Array], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with two tasks: digits as they are, and mirrored."""
    x, y = digits
    folder = tmp_path_factory.mktemp("served") / "digits.crwn"
    model = crwn.NeuroModNet(in_features=64, hidden=(128, 128), classes=10, seed=0)
    with Learner(model, bank=folder) as learner:
        learner.learn_many({"upright": (x, y), "mirrored": (mirrored(x), y)}, batches=150, progress=False)
    return folder


MakeLearner = Callable[[], Learner]


@pytest.fixture
def learner(taught: Path, tmp_path: Path) -> Iterator[Learner]:
    """A learner of its own over a copy of the taught folder."""
    import shutil

    shutil.copytree(taught, tmp_path / "digits.crwn")
    with Learner.load(tmp_path / "digits.crwn") as opened:
        yield opened


@pytest.fixture
def service(learner: Learner) -> Iterator[Running]:
    with running(learner) as served:
        yield served


@pytest.fixture
def small_limits() -> Limits:
    return Limits(
        body_bytes=100_000,
        upload_bytes=200_000,
        unpacked_bytes=500_000,
        context_bytes=50_000,
        rows=100,
        jobs=2,
        batches=100_000,
        grace_seconds=1.0,
    )
