"""The memory a closed form needs, known before it starts."""

from __future__ import annotations

from crwn._utils import free_memory
from crwn.errors import CRWNError
from crwn.training.exact.accumulate import memory_bytes

SAID_FROM = 2**30  # bytes


def memory_note(width: int) -> str:
    """A line about the memory of a closed form; empty where it is small.

    >>> memory_note(7840)
    'closed form of 7,840 features: about 1.3 GB of memory, 0.25 GB on disk where statistics are kept'
    """
    needed = memory_bytes(width)
    if needed < SAID_FROM:
        return ""
    kept = 4 * width * (width + 1)
    return (
        f"closed form of {width:,} features: about {needed / 1e9:.1f} GB of memory, "
        f"{kept / 1e9:.2f} GB on disk where statistics are kept"
    )


def check_memory(width: int, available: int | None = None) -> None:
    """Raise CRWNError where a closed form of this width does not fit into the memory that is free.

    Args:
        available: bytes; by default what the system reports, where it does.
    """
    free = free_memory() if available is None else available
    needed = memory_bytes(width)
    if free is not None and needed > free:
        raise CRWNError(
            f"a closed form of {width:,} features needs about {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are "
            'free: use a narrower model, or method="gradient"'
        )
