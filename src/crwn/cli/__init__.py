"""The command line: one file a command, errors caught once, here at the edge."""

from __future__ import annotations

import os
import sys

import typer

from crwn import __version__
from crwn.cli import atlas, bench, data, demo, export, learn, predict, report, reproduce, run, serve, tasks
from crwn.errors import CRWNError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Start with: crwn demo. `--debug` adds the trace to an error.",
)
for _name, _command, _epilog in (
    ("demo", demo.command, demo.EPILOG),
    ("run", run.command, run.EPILOG),
    ("reproduce", reproduce.command, reproduce.EPILOG),
    ("report", report.command, report.EPILOG),
    ("learn", learn.command, learn.EPILOG),
    ("predict", predict.command, predict.EPILOG),
    ("tasks", tasks.command, tasks.EPILOG),
    ("forget", tasks.forget, tasks.FORGET_EPILOG),
    ("export", export.command, export.EPILOG),
    ("import-context", export.import_context, export.IMPORT_EPILOG),
    ("atlas", atlas.command, atlas.EPILOG),
    ("serve", serve.command, serve.EPILOG),
    ("bench", bench.command, bench.EPILOG),
):
    app.command(_name, epilog=_epilog)(_command)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crwn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Continual learning with configurable random-weight networks: a few kilobytes per task, no forgetting."""


def main() -> None:
    """Run a command; what went wrong is one line on stderr (`--debug` adds the trace)."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except (CRWNError, OSError, MemoryError, KeyboardInterrupt) as error:
        if debug:
            raise
        _tell(error)
        sys.exit(1)


def _tell(error: BaseException) -> None:
    if isinstance(error, BrokenPipeError):
        # The reader went away (`crwn tasks ... | head`): there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if isinstance(error, KeyboardInterrupt):
        text = "stopped; everything finished before is kept"
    elif isinstance(error, MemoryError):
        text = "not enough memory: use a smaller model or fewer rows"
    else:
        text = " ".join(str(error).split())
    print(f"error: {text}", file=sys.stderr)
