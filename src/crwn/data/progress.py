"""Progress on stderr: bars on a terminal and in a notebook, lines elsewhere, nothing where it is switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crwn._utils import Lines, display

Progress = Callable[[str, int, int | None], None]
"""Callback with a description of the work, the amount done, and the total (None: unknown)."""


def silent(what: str, done: int, total: int | None) -> None:
    """A progress callback that does nothing."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress callback that shows one bar per description on stderr, from its first call on, or lines."""
    how = display()
    if how != "bars":
        lines = Lines()
        yield silent if how == "none" else lambda what, done, total: lines.show(lambda: _line(what, done, total))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    shown: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int | None) -> None:
        bar.start()
        if what not in shown:
            shown[what] = bar.add_task(what, total=total)
        bar.update(shown[what], completed=done, total=total)

    try:
        yield show
    finally:
        if shown:
            bar.stop()


def _line(what: str, done: int, total: int | None) -> str:
    return f"{what}: {done:,}" + (f" of {total:,} ({done / total:.0%})" if total else "")
