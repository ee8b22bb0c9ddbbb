"""Threads of the BLAS that NumPy and SciPy call: as many as torch has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch


class _Limit:
    """The limit of the process, which the first thread that needs it sets and the last one takes back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.set: Any = None

    def enter(self) -> None:
        with self.lock:
            if not self.users:
                self.set = _libraries().limit(limits=torch.get_num_threads(), user_api="blas")
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.set.restore_original_limits()


_limit = _Limit()


@contextmanager
def blas_threads() -> Iterator[None]:
    """Inside, BLAS has as many threads as torch; as a decorator, while the function runs.

    Otherwise it takes a thread for every core, whatever `torch.set_num_threads` and `--threads` allow. Its threads wait
    by spinning: beside other processes a factor of 7,840 features took 7.7 seconds of the processor instead of 1.3.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  # only libraries that are loaded can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
