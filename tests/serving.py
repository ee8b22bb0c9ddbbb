"""A real service on a loopback port, for the tests of the service and of what asks it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crwn.learner import Learner
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


def mirrored(x: Array) -> Array:
    return np.ascontiguousarray(x.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64))
