"""`crwn report`: all runs under a folder as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import counted

EPILOG = "Example: crwn report runs --out report.html"


def command(
    records: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs, at any depth.")],
    out: Annotated[Path | None, typer.Option(help="The page to write; DIR/report.html by default.")] = None,
) -> None:
    """Write one HTML file with every run under a folder; it needs no network to be shown."""
    from crwn.report.page import write_page

    page = records / "report.html" if out is None else out
    count = write_page(records, page)
    typer.echo(f"{page}: {counted(count, 'run')}, {page.stat().st_size / 1e6:.1f} MB")
