"""A service to attack on loopback, and a client that measures named predictions meanwhile."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

FEATURES = 64


@dataclass
class Target:
    """A running `crwn serve`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, seconds: float = 30.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=60)


@contextmanager
def serving(model: Path, log: Path, *options: str) -> Iterator[Target]:
    """`crwn serve` of this model on a free port, its output in a file."""
    command = [sys.executable, "-m", "crwn", "serve", str(model), "--port", "0", *options]
    kept = {key: value for key, value in os.environ.items() if key not in ("CRWN_TOKEN", "CRWN_BANK")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=kept | {"OMP_NUM_THREADS": "1"})
    try:
        until = time.monotonic() + 120
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the service did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        yield Target(process, int(found[1]), log)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Outcome:
    """What an attack met: every try either held or broke something; answers by status."""

    tries: int = 0
    broken: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    named: dict[str, Any] | None = None  # named predictions, where the attack itself measured them
    measured: dict[str, float] = field(default_factory=dict)

    def add(self, status: int | str, *allowed: int | str) -> None:
        """One try with its answer; it is broken unless the answer is allowed. A 500 never is."""
        self.tries += 1
        self.answers[str(status)] += 1
        if status == 500 or (allowed and status not in allowed):
            self.broken += 1

    def check(self, held: bool, note: str) -> None:
        """One try whose effect was looked at."""
        self.tries += 1
        if not held:
            self.broken += 1
            self.notes.append(note)

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "tries": self.tries,
            "broken": self.broken,
            "answers": dict(sorted(self.answers.items())),
        }
        found |= {"named_predictions": self.named} if self.named else {}
        found |= {"measured": self.measured} if self.measured else {}
        return found | ({"notes": self.notes[:5]} if self.notes else {})


class Probe:
    """Predicts with a named task again and again on one connection, opened again where it is closed."""

    def __init__(self, port: int, task: str, row: list[float], wanted: object) -> None:
        data = json.dumps({"rows": [row], "task": task}).encode()
        head = "POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
        self._port, self._wanted = port, wanted
        self.seconds: list[float] = []
        self.failed: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        line: socket.socket | None = None
        while not self._stop.wait(0.02):
            began = time.perf_counter()
            for attempt in (1, 2):  # as HTTP clients do: a connection that was closed while idle is opened again
                try:
                    line = line or socket.create_connection(("127.0.0.1", self._port), timeout=30)
                    problem = self._ask(line)
                    break
                except OSError as error:
                    line, problem = None, type(error).__name__ if attempt == 2 else ""
            self.seconds.append(time.perf_counter() - began)
            if problem:
                self.failed[problem] += 1
        if line is not None:
            line.close()

    def _ask(self, line: socket.socket) -> str:
        line.sendall(self._request)
        answer = b""
        while b"\r\n\r\n" not in answer or len(answer.split(b"\r\n\r\n", 1)[1]) < _length(answer):
            part = line.recv(65536)
            if not part:
                raise ConnectionResetError
            answer += part
        if not answer.startswith(b"HTTP/1.1 200"):
            return answer[9:12].decode()
        return "" if json.loads(answer.split(b"\r\n\r\n", 1)[1])["labels"] == [self._wanted] else "wrong label"

    def record(self) -> dict[str, Any]:
        p50, p99 = np.percentile(self.seconds or [0.0], [50, 99]) * 1000
        found: dict[str, Any] = {"predictions": len(self.seconds), "p50_ms": round(float(p50), 1)}
        return found | {"p99_ms": round(float(p99), 1), "failed": dict(self.failed)}


def _length(answer: bytes) -> int:
    found = re.search(rb"content-length: (\d+)", answer.lower())
    return int(found[1]) if found else 0


def together(ask: Callable[[], None], threads: int, out: Outcome) -> None:
    def run() -> None:
        try:
            ask()
        except (httpx.TransportError, ValueError) as error:
            out.check(False, f"{type(error).__name__}: {error}"[:100])

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


Attack = Callable[[Target, Outcome, float], None]
