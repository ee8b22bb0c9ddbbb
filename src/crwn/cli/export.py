"""`crwn export` and `crwn import-context`: one task's context out of a model folder, and into another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson, ModelFolder, counted
from crwn.errors import ConfigError

EPILOG = "Example: crwn export digits.crwn upright upright.safetensors"
IMPORT_EPILOG = "Example: crwn import-context digits.crwn upright.safetensors"


def command(
    model: ModelFolder,
    task: Annotated[str, typer.Argument(help="Name of the task.")],
    file: Annotated[Path, typer.Argument(help="`.safetensors` for the context, `.onnx` for model and context in one.")],
    as_json: AsJson = False,
) -> None:
    """Write one task to a file."""
    from crwn.learner import Learner

    kind = file.suffix.lower()
    if kind not in (".safetensors", ".onnx"):
        raise ConfigError(f"{file} ends in {kind or 'nothing'}: give a name that ends in .safetensors or .onnx")
    facts: dict[str, Any] = {"model": str(model), "task": task, "file": str(file)}
    with Learner.load(model) as learner:
        if kind == ".onnx":
            from crwn.integrations.onnx import export_onnx

            facts |= export_onnx(learner, task, file)
        else:
            learner.context(task).save(file)
    facts["bytes"] = file.stat().st_size
    typer.echo(json.dumps(facts) if as_json else f'wrote "{task}" to {file} ({facts["bytes"]:,} bytes)')


def import_context(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(help="A context as `crwn export` writes it.")],
    replace: Annotated[bool, typer.Option("--replace", help="Put it in place of a task with the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a context that the same model learned elsewhere."""
    from crwn.context import Context
    from crwn.learner import Learner

    context = Context.load(file)
    with Learner.load(model) as learner:
        if context.name in learner.bank and not replace:
            raise ConfigError(f'task "{context.name}" is in {model} already: --replace puts this one in its place')
        learner.add(context, replace=replace)
        count = len(learner.bank)
    facts = {"model": str(model), "task": context.name, "tasks": count}
    typer.echo(json.dumps(facts) if as_json else f'added "{context.name}"; {counted(count, "task")} in {model} now')
