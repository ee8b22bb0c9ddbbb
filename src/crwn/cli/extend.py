"""`crwn extend`: add rows, of the task's classes or of new ones, to a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.module import build_module
from crwn.cli.options import AsJson, DataFile, ModelFolder, Module, TaskName, counted
from crwn.cli.rows import FileToLearn, Label

EPILOG = "Example: crwn extend birds.crwn garden two-more-species/"


def command(
    model: ModelFolder,
    task: TaskName,
    data: DataFile,
    old: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="The rows learned before: a task learned by batches needs them, one learned with --exact "
            "--keep-statistics does not, and counts which of their answers change.",
        ),
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="For a task learned by batches: how many.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, instead of batches.")] = None,
    label: Label = None,
    module: Module = None,
    as_json: AsJson = False,
) -> None:
    """Add rows, of the task's classes or of new ones, to a task, and report how far its answers for old rows moved."""
    from crwn.learner import Learner

    given = FileToLearn(data, label=label)
    before = None if old is None else FileToLearn(old, label=label)
    length = {"batches": batches, "epochs": epochs}
    options: dict[str, Any] = {name: value for name, value in length.items() if value is not None}
    with Learner.load(model, model=build_module(module)) as learner:
        x, y, _ = given.rows(learner, task)
        rows = None if before is None else before.rows(learner, task)[:2]
        done = learner.extend(task, x, y, old=rows, **options)
    facts = {
        "model": str(model),
        "task": task,
        "rows": done.rows,
        "new_classes": list(done.new_classes),
        "classes": list(done.context.classes),
        "mean_change": round(done.mean_change, 6),
        "largest_change": round(done.largest_change, 6),
        "answers_changed": done.answers_changed,
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    new = f"new: {', '.join(map(str, done.new_classes))}" if done.new_classes else "none new"
    typer.echo(f'extended "{task}" by {counted(done.rows, "row")}: {len(done.context.classes)} classes, {new}')
    moved = f"scores of old rows moved by {done.mean_change:.3g} (root mean square), none by more than "
    typer.echo(f"{moved}{done.largest_change:.3g}")
    if done.answers_changed is not None:
        typer.echo(f"{100 * done.answers_changed:.2f}% of the old rows have another answer")
