"""`crwn serve --workers`: processes that share one bank, replaced when they die, stopped in order."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

import crwn
from crwn.errors import CRWNError
from crwn.serve.running import open_socket
from crwn.serve.workers import Workers
from serving import Array, wait_until

COMMAND = [sys.executable, "-c", "from crwn.cli import main; main()", "serve"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "CRWN_TOKEN"} | {"OMP_NUM_THREADS": "1"}


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`crwn serve --workers 2` on a free port, and its address."""
    command = [*COMMAND, str(folder), "--port", "0", "--workers", "2", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"with 2 workers at (http://127\.0\.0\.1:\d+)", line)
        assert found is not None, line
        yield process, found[1]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def children(process: subprocess.Popen[str]) -> list[int]:
    """The workers in the order in which they were started."""
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return sorted(map(int, listed.stdout.split()))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_workers_see_each_others_tasks_and_are_replaced(
    taught: Path, tmp_path: Path, digits: tuple[Array, Array]
) -> None:
    x, y = digits
    folder = tmp_path / "digits.crwn"
    shutil.copytree(taught, folder)
    asked = {"rows": x[:8].tolist()}
    with started(folder) as (process, address), ExitStack() as stack:
        # Open at once, so that both workers have some of them.
        clients = [stack.enter_context(httpx.Client(base_url=address, timeout=60)) for _ in range(24)]
        assert {client.post("/v1/predict", json=asked | {"task": "upright"}).status_code for client in clients} == {200}
        with crwn.Client(address) as client:
            client.learn("again", x[:200], y[:200], batches=30).wait()
        time.sleep(1.0)
        for one in clients:
            assert one.post("/v1/predict", json=asked | {"task": "again"}).status_code == 200
            ranking = one.post("/v1/infer-task", json=asked).json()["ranking"]
            assert "again" in [found["task"] for found in ranking]
        before = children(process)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(children(process)) == 2 and before[0] not in children(process), "it is replaced", 120)
        with httpx.Client(base_url=address, timeout=120) as http:
            # Changes wait for the first worker, which is the one that was replaced.
            wait_until(lambda: http.delete("/v1/tasks/again").status_code in (204, 404), "changes are made", 120)
            assert http.get("/v1/tasks/again").status_code == 404
        workers = children(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert process.stderr is not None
        rest = process.stderr.read()
        assert "Traceback" not in rest
        assert "Fatal" not in rest
        wait_until(lambda: not any(map(is_alive, workers)), "the workers have ended")
    with crwn.Learner.load(folder) as learner:
        assert learner.tasks == ["mirrored", "upright"]
        assert learner.bank.verify() == []


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(taught: Path) -> None:
    with started(taught, "--read-only") as (process, _):
        workers = children(process)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers have ended", 120)


def run(listening: socket.socket, program: str, count: int = 2) -> list[int]:
    """Workers that run a program of one line; returns the numbers of tasks that `ready` was called with."""
    found: list[int] = []

    def ready(tasks: int) -> None:
        found.append(tasks)
        os.kill(os.getpid(), signal.SIGTERM)

    Workers([sys.executable, "-c", program], {}, listening, count).run(ready)
    return found


def test_a_worker_that_cannot_start_ends_the_service() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        with pytest.raises(CRWNError, match=r"worker [12] of 2 ended with status 3 before it served"):
            run(listening, "import sys; sys.exit(3)")
        waits = "import sys; sys.stdin.readline(); print('{\"tasks\": 5}', flush=True); sys.stdin.read()"
        assert run(listening, waits) == [5]
