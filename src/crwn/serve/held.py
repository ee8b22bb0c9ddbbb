"""Bytes of request bodies in memory: counted from when they arrive until their request is answered, within a limit."""

from __future__ import annotations

import asyncio

from crwn.serve.errors import ServeError


class HeldBodies:
    """Counts what all requests hold together, which limits of single bodies do not bound: there are many connections.

    Args:
        most: bytes at the same time; who would hold more is refused.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def add(self, size: int) -> None:
        """Count bytes that the request of the running asyncio task holds, until that task ends.

        Raises:
            ServeError: all requests together hold too much.
        """
        if self.held + size > self.most:
            raise ServeError.busy("too many large bodies are in memory")
        task = asyncio.current_task()
        assert task is not None
        self.held += size
        task.add_done_callback(lambda _: self._release(size))

    def _release(self, size: int) -> None:
        self.held -= size
