"""Progress of a download or an import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int | None], None]
"""Callback with a description of the work, the amount done, and the total (None: unknown)."""


def silent(what: str, done: int, total: int | None) -> None:
    """A progress callback that does nothing."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress callback that shows one bar per description on stderr, from its first call on."""
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

    def show(what: str, done: int, total: int | None) -> None:
        bar.start()
        if what not in lines:
            lines[what] = bar.add_task(what, total=total)
        bar.update(lines[what], completed=done, total=total)

    try:
        yield show
    finally:
        if lines:
            bar.stop()
