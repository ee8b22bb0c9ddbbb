"""A real service on a loopback port, and helpers for the tests that use one."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from crwn.learner import Learner
from crwn.serve.running import Server, make_server, open_socket
from crwn.serve.service import Service

Array = npt.NDArray[Any]


@dataclass
class Running:
    """A service under test."""

    address: str
    learner: Learner
    server: Server
    thread: threading.Thread

    @property
    def service(self) -> Service:
        service: Service = self.server.config.app.state.service  # type: ignore[union-attr]
        return service

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(120)
        assert not self.thread.is_alive(), "the service did not stop"


@contextmanager
def running(learner: Learner, listening: socket.socket | None = None, **settings: Any) -> Iterator[Running]:
    """Serves this learner from a thread on this socket, or on a free port."""
    server = make_server(learner, port=0, **settings)
    with listening or open_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the service has started")
        served = Running(f"http://127.0.0.1:{listening.getsockname()[1]}", learner, server, thread)
        try:
            yield served
        finally:
            served.stop()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Polls a condition; fails when it does not become true in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds:g} s in vain until {what}"
        time.sleep(0.01)


class Response(Protocol):
    """What `httpx` and the test client of Starlette have in common."""

    @property
    def status_code(self) -> int: ...

    def json(self) -> Any: ...


def refusal(response: Response) -> tuple[int, str]:
    """Status and code of an error response, whose form is checked."""
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert "\n" not in body["error"]["message"]
    return response.status_code, body["error"]["code"]


def npy(x: Array) -> bytes:
    """An array as the bytes of a `.npy` file."""
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def mirrored(x: Array) -> Array:
    """Digits of 8 x 8 pixels, each mirrored."""
    return np.ascontiguousarray(x.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64))
