"""Arguments and options that several commands share."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn._utils import counted as counted
from crwn._utils import is_quiet
from crwn.cli.completion import scenario_names, task_names

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder, such as digits.crwn.")]
ModelOrRun = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_OR_RUN",
        help="Model folder, such as digits.crwn, or run folder, such as runs/rotated-digits/neuromodnet-1024/seed-0; "
        "the folder above works too where the run has one seed.",
    ),
]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="Name of the task.", autocompletion=task_names)]
Scenario = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="As for `crwn run`: a name or a TOML file.", autocompletion=scenario_names),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="`.npz` with x and y; a CSV with a `label` column; a folder or zip of images, one folder per class.",
    ),
]
Module = Annotated[
    str | None,
    typer.Option(
        "--module",
        metavar="PACKAGE:FUNCTION",
        help="Function that returns the module converted by `crwn.neuromodulate` that the folder belongs to.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster, like host:6379; by default one is started on this machine."),
]
Tasks = Annotated[int | None, typer.Option(min=1, help="Number of tasks; by default all of the scenario.")]
Batches = Annotated[
    int | None,
    typer.Option(min=1, help="Batches per task; by default the scenario's (1,000 for MNIST, as in the paper)."),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Epochs per task, instead of batches.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the method or of its recipe; repeatable."),
]
Engine = Annotated[
    str, typer.Option(help="Where independent tasks are learned: local, processes (one for each core) or ray.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use; by default all cores.")]


def from_environment(variable: str, help: str) -> Any:
    """An option whose value may also come from an environment variable, which `--help` names."""
    return typer.Option(envvar=variable, show_envvar=True, help=help)


def note(text: str) -> None:
    """Print a line on stderr that is neither a result nor an error: `--quiet` leaves it out."""
    if not is_quiet():
        typer.echo(text, err=True)


def terminal_width() -> int | None:
    """Columns of the terminal that results are printed to; None where they go to a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
