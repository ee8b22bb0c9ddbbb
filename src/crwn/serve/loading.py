"""Threads that keep the contexts in memory up to date: one loads those that requests need, one looks for changes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from crwn.contexts.bank import ResidentStack
from crwn.errors import BankError, CRWNError
from crwn.learner import Learner
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from crwn.serve.worker import Worker

log = logging.getLogger("crwn.serve")


@dataclass(slots=True)
class _Wanted:
    names: list[str]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


class Loader(Worker[_Wanted]):
    """Loads contexts before their rows are queued for the model, whose thread then never waits for the bank.

    What several requests need is fetched together.
    """

    def __init__(self, resident: ResidentStack, limits: Limits) -> None:
        super().__init__("crwn-loading")
        self.resident = resident
        self.limits = limits

    async def load(self, names: Sequence[str]) -> None:
        """Waits until these tasks are in memory; returns at once where they are.

        Raises:
            TaskError: there is no such task.
            ServeError: the bank does not return them in time.
        """
        if self.resident.holds(names):
            return
        loop = asyncio.get_running_loop()
        wanted = _Wanted(list(dict.fromkeys(names)), loop.create_future(), loop)
        with self.changed:
            if self.stopping:
                raise ServeError.stopping()
            self.queue.append(wanted)
            self.changed.notify()
        try:
            async with asyncio.timeout(self.limits.bank_seconds):
                await wanted.done
        except TimeoutError:
            raise ServeError.bank_hangs(self.limits.bank_seconds) from None

    def take(self) -> list[_Wanted]:
        taken: list[_Wanted] = []
        count = 0
        while self.queue and (not taken or count + len(self.queue[0].names) <= self.resident.capacity // 2):
            wanted = self.queue.popleft()
            if not wanted.done.done():
                count += len(wanted.names)
                taken.append(wanted)
        return taken

    def handle(self, items: list[_Wanted]) -> None:
        try:
            self._load([name for wanted in items for name in wanted.names])
        except CRWNError as error:
            if len(items) > 1:  # one unknown task must not fail the others
                for wanted in items:
                    self.handle([wanted])
                return
            self._settle(items, error)
        except Exception:
            log.exception("loading contexts failed")
            self._settle(items, ServeError.internal())
        else:
            self._settle(items, None)

    def _load(self, names: list[str]) -> None:
        size = max(1, self.resident.capacity // 2)
        for at in range(0, len(names), size):
            self.resident.load(names[at : at + size])

    @staticmethod
    def _settle(items: list[_Wanted], error: Exception | None) -> None:
        for wanted in items:
            try:
                wanted.loop.call_soon_threadsafe(_set, wanted.done, error)
            except RuntimeError:  # the loop is closed: nobody waits
                continue


def _set(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class Refresher:
    """Drops contexts from memory that other services changed in the bank, every `refresh_seconds`."""

    def __init__(self, learner: Learner, limits: Limits) -> None:
        self.learner = learner
        self.limits = limits
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crwn-refreshing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, unless it waits for a bank that hangs."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopped.wait(self.limits.refresh_seconds):
            try:
                self.learner.refresh()
            except BankError as error:
                log.warning("the bank cannot be read, contexts in memory are used: %s", error)
            except Exception:
                log.exception("looking for changes in the bank failed")
