"""`crwn import-context`: add a task from a context file to a model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelFolder, counted

EPILOG = "Example: crwn import-context digits.crwn upright.safetensors"


def command(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A context file, as `crwn export` writes it.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a task of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a task from a context file that was exported from the same model."""
    from crwn.contexts import Context, check_free
    from crwn.learner import Learner

    context = Context.load(file)
    with Learner.load(model) as learner:
        if not replace:
            check_free([context.name], learner.bank, where=model, hint="--replace overwrites it")
        learner.add(context, replace=replace)
        count = len(learner.bank)
    facts = {"model": str(model), "task": context.name, "tasks": count}
    typer.echo(json.dumps(facts) if as_json else f'added "{context.name}"; {counted(count, "task")} in {model} now')
