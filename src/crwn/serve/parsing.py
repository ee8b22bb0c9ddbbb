"""Large JSON bodies, parsed in another process: Python's lock would stop every other request meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from crwn.errors import DataError
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits

Parsed = tuple[dict[str, Any], npt.NDArray[Any] | None]  # the object, and the array that was under the key
_WORKER = Path(__file__).with_name("parse_worker.py")


class Parser:
    """A process that parses one body at a time; it starts with the first one, and again after it was ended.

    Args:
        limits: how many bodies may wait, and how long one may take.
        rest: bytes of JSON beside the array; they become Python objects here, and Python's lock is held meanwhile.
    """

    def __init__(self, limits: Limits, rest: int) -> None:
        self.limits = limits
        self.rest = rest
        self.waiting = 0
        self._thread = ThreadPoolExecutor(1, "crwn-parsing")
        self._process: subprocess.Popen[bytes] | None = None

    async def parse(self, data: bytes, key: str, most: int) -> Parsed:
        """Parses a JSON object whose array under `key`, of at most so many rows, is returned beside it.

        Raises:
            ServeError: it is no JSON object, too many bodies wait, or it takes too long or too much memory.
            DataError: the array has no regular shape, or other values than numbers.
        """
        if self.waiting >= self.limits.parses:
            raise ServeError.busy("too many large bodies are being parsed")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._parse, data, key, most)
        finally:
            self.waiting -= 1

    def parse_here(self, data: bytes, key: str, most: int) -> Parsed:
        """Like `parse`, for callers with a thread of their own."""
        return self._thread.submit(self._parse, data, key, most).result()

    def stop(self) -> None:
        """Ends the process; nothing can be parsed afterwards."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _parse(self, data: bytes, key: str, most: int) -> Parsed:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        late = threading.Timer(self.limits.parse_seconds, self._process.kill)
        late.start()
        try:
            limits = (key, most, self.rest, self.limits.table_cells)
            head, parts = _exchange(self._process, data, limits)
        except (OSError, ValueError):  # it was ended: by the timer, or by the system for lack of memory
            self._end()
            raise ServeError(413, "body_too_large", "the body cannot be parsed in time: send less at once") from None
        finally:
            late.cancel()
        if "problem" in head:
            raise _refused(head["code"], head["problem"])
        if "array" in head:
            kind, shape = head["array"]
            return head["rest"], np.frombuffer(parts[0], dtype=kind).reshape(shape)
        if parts:
            head["rest"][key] = [row for part in parts for row in orjson.loads(part)]
        return head["rest"], None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written yet is not wanted any more
                    continue


def _exchange(
    process: subprocess.Popen[bytes], data: bytes, limits: tuple[str, int, int, int]
) -> tuple[dict[str, Any], list[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(orjson.dumps([len(data), *limits]) + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    sizes = orjson.loads(process.stdout.readline())
    head, *parts = (process.stdout.read(size) for size in sizes)
    if [len(head), *map(len, parts)] != sizes:
        raise ValueError("the answer is cut off")
    found: dict[str, Any] = orjson.loads(head)
    return found, parts


def _refused(code: str, problem: str) -> Exception:
    if code == "invalid_data":
        return DataError(problem)
    status = 413 if code in ("too_large", "too_many_rows") else 422
    return ServeError(status, "body_too_large" if code == "too_large" else code, problem)
