"""Threads of the BLAS that NumPy and SciPy call: as many as torch has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch


@contextmanager
def blas_threads() -> Iterator[None]:
    """Inside, BLAS has as many threads as torch; as a decorator, while the function runs.

    Otherwise it takes a thread for every core, whatever `torch.set_num_threads` and `--threads` allow. Its threads wait
    by spinning: beside other processes a factor of 7,840 features took 7.7 seconds of the processor instead of 1.3.
    """
    with _libraries().limit(limits=torch.get_num_threads(), user_api="blas"):
        yield


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  # only libraries that are loaded can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
