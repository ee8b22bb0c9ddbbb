"""`crwn restore`: make a model folder of a backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelFolder, counted

EPILOG = "Example: crwn restore digits.backup digits.crwn"


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `crwn backup` wrote.")],
    model: ModelFolder,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a folder of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a model folder of a backup; every file is compared with its checksum first."""
    from crwn.learner.backup import restore

    done = restore(file, model, replace=replace)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "file": str(file), **done}))
    else:
        typer.echo(f"restored {counted(done['tasks'], 'task')} to {model}")
