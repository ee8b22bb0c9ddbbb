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
