"""Settings of memory and threads for processes that only train."""

from __future__ import annotations

import ctypes
import sys
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST = 2**30
SMALL = 1_000_000  # parameters and buffers of a network


def keep_freed_memory() -> bool:
    """Keep freed memory for the next allocation instead of returning it to the system; true where that could be set.

    Every step allocates the same few megabytes. If they are returned each time, the system maps and clears every page
    again, which takes up to a fifth of a step. Only for processes of long runs: peak memory is the same, but held.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt  # glibc; musl has none
    except (OSError, AttributeError):
        return False
    return bool(set_option(M_MMAP_THRESHOLD, LARGEST)) and bool(set_option(M_TRIM_THRESHOLD, 2 * LARGEST - 1))


def use_one_thread_if_small(model: nn.Module) -> bool:
    """Let torch compute with one thread where the network is small; true if it is.

    The products of a small network take microseconds: threads would wait for each other longer than they compute, and
    many times longer where other processes use the same cores.
    """
    import torch  # `crwn reproduce` with nothing left to do does not load it

    small = sum(tensor.numel() for tensor in chain(model.parameters(), model.buffers())) <= SMALL
    if small:
        torch.set_num_threads(1)
    return small
