"""`crwn export`: write one task of a model folder to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson, ModelOrRun, TaskName
from crwn.errors import ConfigError

EPILOG = "Example: crwn export digits.crwn upright upright.safetensors"


def command(
    model: ModelOrRun,
    task: TaskName,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="`.safetensors` for the context alone, `.onnx` for the model with this context."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Write one task to a file: its context, or an ONNX model."""
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
