"""Several processes that serve one address: started together, replaced when they die, stopped in order.

The process of the command opens the sockets and watches the others; it loads no model. A worker gets its settings as
a line of JSON on its standard input, whose end tells it that nobody watches any more, and answers with a line of JSON
on its standard output when it serves.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from crwn.errors import CRWNError
from crwn.serve.limits import Limits
from crwn.serve.running import open_socket

log = logging.getLogger("crwn.serve")

POLL_SECONDS = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # before a worker that died at its start is started again
LATE_SECONDS = 10.0  # after the grace of jobs, until a worker that does not stop is killed


class _Worker:
    """One process and what is known of it."""

    def __init__(self, command: Sequence[str], settings: dict[str, Any], sockets: Sequence[socket.socket]) -> None:
        self.ready: dict[str, Any] | None = None
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[one.fileno() for one in sockets],
            start_new_session=True,  # Ctrl-C in the terminal comes from the watching process, as one signal
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.output = self.process.stdout
        with suppress(BrokenPipeError):  # it died at once, which is seen at the end of its output
            self.process.stdin.write(json.dumps(settings).encode() + b"\n")
            self.process.stdin.flush()

    def close(self) -> int:
        """Wait for its end; returns the status."""
        status = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        return status


class Workers:
    """Runs `count` workers until SIGINT or SIGTERM.

    Args:
        command: starts one worker.
        settings: of every worker; its place, sockets and the secret of the group are added.
        listening: the socket that all of them serve.
    """

    def __init__(self, command: Sequence[str], settings: dict[str, Any], listening: socket.socket, count: int) -> None:
        self.command, self.settings, self.listening = list(command), settings, listening
        self.count = count
        self.secret = secrets.token_urlsafe(32)
        self.workers: dict[int, _Worker] = {}
        self._private: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        self._due: dict[int, float] = {}  # when a place is to be filled again
        self._pauses = [FIRST_PAUSE] * count
        self._stopping = False

    def run(self, ready: Callable[[int], None]) -> None:
        """Serves; `ready` is called once, with the number of tasks, when all workers serve.

        Raises:
            CRWNError: a worker died before all of them served.
        """
        before = {one: signal.signal(one, self._stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            with ExitStack() as stack:
                self._private = [stack.enter_context(open_socket("127.0.0.1", 0)) for _ in range(self.count)]
                try:
                    for place in range(self.count):
                        self._start(place)
                    self._watch(ready)
                finally:
                    self._end_all()
        finally:
            self._selector.close()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start(self, place: int) -> None:
        sockets = [self.listening, self._private[place]]
        own = {
            "place": place,
            "ports": [one.getsockname()[1] for one in self._private],
            "secret": self.secret,
            "sockets": [one.fileno() for one in sockets],
        }
        worker = self.workers[place] = _Worker(self.command, self.settings | own, sockets)
        self._selector.register(worker.output, selectors.EVENT_READ, place)

    def _watch(self, ready: Callable[[int], None]) -> None:
        announced = False
        while not self._stopping:
            for key, _ in self._selector.select(POLL_SECONDS):
                self._read(key.data, announced)
            for place in [one for one, moment in self._due.items() if moment <= time.monotonic()]:
                del self._due[place]
                self._start(place)
            facts = [worker.ready for worker in self.workers.values()]
            if not announced and len(facts) == self.count and facts[0] is not None and all(facts):
                announced = True
                ready(int(facts[0]["tasks"]))

    def _read(self, place: int, announced: bool) -> None:
        """A worker has written that it serves, or its output has ended because it died."""
        worker = self.workers[place]
        line = worker.output.readline()
        if line:
            worker.ready = json.loads(line)
            self._pauses[place] = FIRST_PAUSE
            return
        self._selector.unregister(worker.output)
        status = worker.close()
        del self.workers[place]
        if self._stopping:
            return
        if not announced:
            raise CRWNError(f"worker {place + 1} of {self.count} ended with status {status} before it served")
        pause = 0.0 if worker.ready else self._pauses[place]
        if not worker.ready:
            self._pauses[place] = min(LONGEST_PAUSE, 2 * pause)
        log.warning("worker %d ended with status %d: another one is started", place + 1, status)
        self._due[place] = time.monotonic() + pause

    def _end_all(self) -> None:
        """Stops all workers in order, and kills those that take too long."""
        for worker in self.workers.values():
            with suppress(ProcessLookupError):
                worker.process.terminate()
        until = time.monotonic() + Limits().grace_seconds + LATE_SECONDS
        for worker in self.workers.values():
            try:
                worker.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("a worker did not stop in time and was killed")
                os.kill(worker.process.pid, signal.SIGKILL)
            worker.close()
