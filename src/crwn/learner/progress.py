"""Progress of the computation of features and of the training of many groups of tasks, as a bar or as lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crwn._utils import Lines, display
from crwn.data.progress import Progress as Encoding
from crwn.data.progress import silent
from crwn.training.loop import Callback, Step
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


@contextmanager
def progress_bar(
    groups: Sequence[Sequence[PreparedTask]], recipe: Recipe, *, shown: bool
) -> Iterator[tuple[Callback, Encoding]]:
    """Two callbacks that show one bar each on stderr: of training steps, with rate and time left, and of features."""
    how = display() if shown else "none"
    if how == "none":
        yield (lambda _: None), silent
        return
    total = sum(len(group) * recipe.steps(len(group[0].rows)) for group in groups)
    if how == "lines":
        yield _lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total} {task.fields[facts]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        training = bar.add_task("learning", total=total, facts="batches")
        encodings: list[TaskID] = []

        def show(step: Step) -> None:
            if step.step == 1:  # the length of training depends on how many copies of a row are learned
                bar.update(training, total=max(total, step.steps * sum(len(group) for group in groups)))
            if step.step % 10 == 0 or step.step == step.steps:
                speed = bar.tasks[0].speed
                each = f", {1000 / speed:.1f} ms each" if speed else ""
                bar.update(
                    training,
                    description=_names(step),
                    facts=f"batches{each}, loss {float(step.losses.mean()):.3f}",
                )
            bar.advance(training, len(step.names))

        def encoding(what: str, done: int, of: int | None) -> None:
            if not encodings:
                encodings.append(bar.add_task(what, total=of, facts="images"))
            bar.update(encodings[0], completed=done, total=of, visible=done != of)

        yield show, encoding


def _lines(total: int) -> tuple[Callback, Encoding]:
    """The same two callbacks for log files: a line now and then, none for what takes a few seconds."""
    began, lines, done = time.monotonic(), Lines(), 0

    def show(step: Step) -> None:
        nonlocal done
        done += len(step.names)

        def text() -> str:
            left = (time.monotonic() - began) * max(0, total - done) / done
            loss = float(step.losses.mean())
            return f"{_names(step)}: {done:,} of {total:,} batches, loss {loss:.3f}, about {left:.0f} s left"

        lines.show(text)

    def encoding(what: str, count: int, of: int | None) -> None:
        lines.show(lambda: f"{what}: {count:,}" + (f" of {of:,} images" if of else " images"))

    return show, encoding


def _names(step: Step) -> str:
    return step.names[0] if len(step.names) == 1 else f"{len(step.names)} tasks"
