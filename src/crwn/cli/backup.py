"""`crwn backup`: copy a model folder to one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelOrRun, counted

EPILOG = "Example: crwn backup digits.crwn digits.backup"


def command(
    model: ModelOrRun,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Copy a model with all its tasks to one file, also while it is served or learned; every context is checked."""
    from crwn.learner.backup import back_up

    done = back_up(model, file)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "file": str(file), **done}))
    else:
        typer.echo(f"backed up {counted(done['tasks'], 'task')} of {model} to {file} ({done['bytes']:,} bytes)")
