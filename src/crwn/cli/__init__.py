"""The command line: one file a command, errors caught once, here at the edge."""

from __future__ import annotations

import sys

import typer

from crwn.cli import reproduce as reproduce_file
from crwn.cli import run as run_file
from crwn.errors import CRWNError

app = typer.Typer(
    help="Continual learning with configurable random-weight networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run", epilog=run_file.EPILOG)(run_file.command)
app.command("reproduce", epilog=reproduce_file.EPILOG)(reproduce_file.command)


@app.callback()
def _options() -> None:
    """Continual learning with configurable random-weight networks: a few kilobytes per task, no forgetting."""


def main() -> None:
    """Run a command; what went wrong is one line on stderr (`--debug` adds the trace)."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except CRWNError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
