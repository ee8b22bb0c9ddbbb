"""Large bodies of all requests together: how much of them is in memory, and how fast they are received."""

from __future__ import annotations

import asyncio

from crwn.serve.errors import ServeError

# Between two parts of a large body, for each that is being received. A part takes half as long to receive: many
# clients that send at once leave most of the time to those who ask for predictions.
TURN_SECONDS = 0.002


class HeldBodies:
    """Counts what all requests hold together, which limits of single bodies do not bound: there are many connections.

    `reading` large bodies are being received now.

    Args:
        most: bytes at the same time; who would hold more is refused.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.reading = 0

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

    async def turn(self) -> None:
        """Waits before the next part of a large body: the longer, the more are being received."""
        await asyncio.sleep(TURN_SECONDS * self.reading)

    def _release(self, size: int) -> None:
        self.held -= size
