"""Locks that a fork of the process waits for, so that the child finds whole what they protect."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from enum import IntEnum

from crwn.errors import ConfigError

FORK_SECONDS = 10.0  # a fork waits at most so long for all locks together


class Protects(IntEnum):
    """What a lock protects, in the order in which threads take several of them."""

    MODEL = 0
    SKETCHES = 1
    FETCHING = 2  # no data: only one thread fetches at a time
    STACK = 3
    BANK = 4


class ForkSafeLock:
    """A lock like `threading.RLock` that is free in a forked child, where its other owners do not exist.

    A fork waits until the lock is free. Where that takes longer than `FORK_SECONDS`, the child gets an error instead of
    data that another thread was changing. A lock that the forking thread itself holds stays its own.
    """

    def __init__(self, protects: Protects) -> None:
        self.protects = protects
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._broken = False
        _locks.add(self)

    def acquire(self) -> None:
        if self._broken:
            raise ConfigError(
                "this learner was in use for too long when the process was forked: open it again in this process with "
                'crwn.Learner.load, or start processes with "spawn"'
            )
        me = threading.get_ident()
        if self._owner != me:
            self._lock.acquire()
            self._owner = me
        self._depth += 1

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def hold_for_fork(self, seconds: float) -> bool:
        """Take the lock for a fork; False where another thread holds it longer than this."""
        if self._owner == threading.get_ident():
            return False
        return self._lock.acquire(timeout=max(0.0, seconds))

    def end_hold(self) -> None:
        """In the parent: the fork is made."""
        self._lock.release()

    def renew(self, held: bool) -> None:
        """In the child: free again, unless the forking thread holds it itself."""
        if self._owner == threading.get_ident():
            return
        self._broken = not held and self.protects != Protects.FETCHING
        self._lock, self._owner, self._depth = threading.Lock(), None, 0


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_forking: list[tuple[ForkSafeLock, bool]] = []  # while a fork is made: every lock, and whether the fork holds it


def _before() -> None:
    until = time.monotonic() + FORK_SECONDS
    for lock in sorted(_locks, key=lambda one: one.protects):
        wait = 0.0 if lock.protects == Protects.FETCHING else until - time.monotonic()
        _forking.append((lock, lock.hold_for_fork(wait)))


def _after_in_parent() -> None:
    while _forking:
        lock, held = _forking.pop()
        if held:
            lock.end_hold()


def _after_in_child() -> None:
    used = bool(_forking)
    while _forking:
        lock, held = _forking.pop()
        lock.renew(held)
    torch = sys.modules.get("torch")
    if used and torch is not None:
        torch.set_num_threads(1)  # the threads of OpenMP are not in the child, which would wait for them


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
