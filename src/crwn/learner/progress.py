"""A progress bar over the training of many groups of tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crwn.training.loop import Callback, Step
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


@contextmanager
def progress_bar(groups: Sequence[Sequence[PreparedTask]], recipe: Recipe, *, shown: bool) -> Iterator[Callback]:
    """A callback that shows one bar over all groups on stderr, with rate and time left."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} batches, {task.fields[rate]} ms each, loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    total = sum(len(group) * recipe.steps(len(group[0].rows)) for group in groups)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown_task = bar.add_task("learning", total=total, loss="", rate="")

        def show(step: Step) -> None:
            if step.step % 10 == 0 or step.step == step.steps:
                speed = bar.tasks[0].speed
                bar.update(
                    shown_task,
                    description=step.names[0] if len(step.names) == 1 else f"{len(step.names)} tasks",
                    loss=f"{float(step.losses.mean()):.3f}",
                    rate=f"{1000 / speed:.1f}" if speed else "",
                )
            bar.advance(shown_task, len(step.names))

        yield show
