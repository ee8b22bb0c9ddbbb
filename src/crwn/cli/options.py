"""Arguments and options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder, such as digits.crwn.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="`.npz` with x and y; a CSV with a `label` column; a folder or zip of images, one folder per class.",
    ),
]


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "task"), counted(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")
