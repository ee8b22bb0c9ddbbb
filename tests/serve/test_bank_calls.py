"""Calls of the bank in threads of their own: how many run at once, how many wait, and for how long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from crwn.contexts.bank import Entry
from crwn.learner import Learner
from crwn.serve.bank_calls import BankCalls
from crwn.serve.errors import ServeError
from crwn.serve.limits import Limits
from serving import Running


class Counted:
    """Calls that take a moment, and how many of them ran at the same time."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, seconds: float = 0.02) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(seconds)
        with self._lock:
            self.running -= 1


@pytest.fixture
def one_by_one() -> Iterator[BankCalls]:
    calls = BankCalls(Limits(bank_seconds=0.2), threads=1, most=3)
    yield calls
    calls.stop()


def test_with_one_thread_calls_run_one_after_another(one_by_one: BankCalls) -> None:
    counted = Counted()

    async def ask() -> None:
        await asyncio.gather(*(one_by_one.call(counted) for _ in range(3)))

    asyncio.run(ask())
    assert (counted.most, counted.running) == (1, 0)


def test_more_calls_than_may_wait_are_refused_at_once(one_by_one: BankCalls) -> None:
    async def ask() -> list[object]:
        return list(await asyncio.gather(*(one_by_one.call(Counted()) for _ in range(5)), return_exceptions=True))

    found = asyncio.run(ask())
    refused = [one for one in found if isinstance(one, ServeError)]
    assert found.count(None) == 3
    assert [(one.status, one.code) for one in refused] == [(503, "busy")] * 2


def test_a_call_that_takes_too_long_is_an_error(one_by_one: BankCalls) -> None:
    with pytest.raises(ServeError, match=r"did not return within 0\.2 s"):
        asyncio.run(one_by_one.call(Counted(), 0.6))


def test_lists_of_many_clients_are_made_one_at_a_time(
    service: Running, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that make objects of a thousand tasks each would leave no time to those that predict."""
    counted, entries = Counted(), learner.bank.entries

    def counting(prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[Entry]:
        counted()
        return entries(prefix, after=after, limit=limit)

    monkeypatch.setattr(learner.bank, "entries", counting)

    def ask(number: int) -> int:
        return httpx.get(f"{service.address}/v1/tasks", params={"limit": 1 + number}, timeout=60).status_code

    with ThreadPoolExecutor(8) as clients:
        assert set(clients.map(ask, range(24))) == {200}
    assert counted.most == 1
