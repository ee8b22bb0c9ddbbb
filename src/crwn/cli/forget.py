"""`crwn forget`: delete a task from a model folder."""

from __future__ import annotations

import json

import typer

from crwn.cli.options import AsJson, ModelFolder, TaskName, counted

EPILOG = "Example: crwn forget digits.crwn upright"


def command(model: ModelFolder, task: TaskName, as_json: AsJson = False) -> None:
    """Delete a task with its context and its sums; all other tasks stay unchanged."""
    from crwn.learner.folder import find_folder, open_folder_bank

    if (find_folder(model) / "statistics").is_dir():  # the task may have sums there, and rows in the shared head
        from crwn.learner import Learner

        with Learner.load(model) as learner:
            learner.forget(task)
            left = len(learner.bank)
    else:  # without torch, which takes longer to load than all this
        with open_folder_bank(model) as bank:
            bank.delete(task)
            left = len(bank)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "forgot": task, "tasks": left}))
    else:
        typer.echo(f'forgot "{task}"; {counted(left, "task")} left in {model}')
