"""Telling people how far a download or an import has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is (None: unknown)."""


def silent(what: str, done: int, total: int | None) -> None:
    """Tells nobody."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr, one line per thing that is being done; nothing where nothing is told."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    lines: dict[str, TaskID] = {}

    def tell(what: str, done: int, total: int | None) -> None:
        bar.start()
        if what not in lines:
            lines[what] = bar.add_task(what, total=total)
        bar.update(lines[what], completed=done, total=total)

    try:
        yield tell
    finally:
        if lines:
            bar.stop()
