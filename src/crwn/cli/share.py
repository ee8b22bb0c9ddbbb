"""`crwn share`: add a task's rows to the head that answers without a task."""

from __future__ import annotations

import json

import typer

from crwn.cli.module import build_module
from crwn.cli.options import AsJson, DataFile, ModelFolder, Module, TaskName, counted
from crwn.cli.rows import FileToLearn, Label

EPILOG = "Example: crwn share photos.crwn birds birds/"


def command(
    model: ModelFolder,
    task: TaskName,
    data: DataFile,
    label: Label = None,
    module: Module = None,
    as_json: AsJson = False,
) -> None:
    """Add rows of a learned task to one head over the classes of all tasks; `crwn classify` answers with it.

    It keeps sums of features and nothing of the rows; the order in which tasks are shared makes no difference.
    """
    from crwn.learner import Learner

    given = FileToLearn(data, label=label)
    with Learner.load(model, model=build_module(module)) as learner:
        x, y, _ = given.rows(learner, task)
        classes = learner.share(task, x, y)
        tasks = learner.shared_tasks
    if as_json:
        facts = {"model": str(model), "task": task, "rows": len(x), "tasks": tasks, "classes": classes}
        typer.echo(json.dumps(facts))
    else:
        rows, many = counted(len(x), "row"), counted(len(tasks), "task")
        typer.echo(f'shared {rows} of "{task}": the head has {classes} classes of {many} now')
