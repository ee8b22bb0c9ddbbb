"""Calls of the bank that requests wait for: in threads of their own, each waited for at most so long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits

Given = ParamSpec("Given")
Found = TypeVar("Found")
THREADS = 8
MOST_WAITING = 256


class BankCalls:
    """A bank may hang, as a database on another machine can: then its callers get an error, and nobody else waits.

    At most `threads` calls run at the same time, and `most` run or wait.
    """

    def __init__(self, limits: Limits, *, threads: int = THREADS, most: int = MOST_WAITING) -> None:
        self.limits = limits
        self.running = 0
        self._most = most
        self._threads = ThreadPoolExecutor(threads, "crwn-bank")

    async def call(self, function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """The result of a function that reads from the bank, waited for `bank_seconds`.

        Raises:
            ServeError: it took too long, or too many calls are waiting.
        """
        return await self._call(partial(function, *args, **kwargs), self.limits.bank_seconds)

    async def change(self, function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """Like `call`, for what may take longer, up to `change_seconds`: a change waits for other writers.

        Where it takes too long, the change may still be made later.
        """
        return await self._call(partial(function, *args, **kwargs), self.limits.change_seconds)

    async def _call(self, function: Callable[[], Found], seconds: float) -> Found:
        if self.running >= self._most:
            raise ServeError.busy("too many requests wait for the bank of contexts")
        self.running += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        future.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            raise ServeError.bank_hangs(seconds) from None

    def stop(self) -> None:
        """Shut the threads down without waiting: one that hangs ends with the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ended(self, future: asyncio.Future[Found]) -> None:
        self.running -= 1
        if not future.cancelled():
            future.exception()  # of a call that nobody waits for any more
