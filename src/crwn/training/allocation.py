"""How freed memory is treated by processes that do nothing but learn."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST = 2**30


def keep_freed_memory() -> bool:
    """Keep memory that is freed for what is allocated next, instead of giving it back; true where that could be set.

    Every step allocates the same few megabytes again: given back, each page is fetched and cleared anew, which takes
    up to a fifth of a step. For the processes of long work alone: the peak is the same, but it is held.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt  # glibc; musl has none
    except (OSError, AttributeError):
        return False
    return bool(set_option(M_MMAP_THRESHOLD, LARGEST)) and bool(set_option(M_TRIM_THRESHOLD, 2 * LARGEST - 1))
