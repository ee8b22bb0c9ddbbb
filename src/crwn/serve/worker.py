"""A thread that works through a queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Worker(Generic[Item]):
    """A thread that handles queued items in order until it is stopped and the queue is empty.

    `queue` and `stopping` are read and changed only while `changed` is held.
    """

    def __init__(self, name: str) -> None:
        self.queue: deque[Item] = deque()
        self.stopping = False
        self.changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Lets the thread end once the queue is empty."""
        with self.changed:
            self.stopping = True
            self.changed.notify()

    def join(self, seconds: float | None = None) -> None:
        """Waits for the thread to end, at most this long."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def take(self) -> list[Item]:
        """Removes the next items from the queue, which has at least one; called while `changed` is held."""
        return [self.queue.popleft()]

    def handle(self, items: list[Item]) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while True:
            with self.changed:
                while not self.queue and not self.stopping:
                    self.changed.wait()
                if not self.queue:
                    return
                items = self.take()
            self.handle(items)
