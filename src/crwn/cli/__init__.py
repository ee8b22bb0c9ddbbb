"""The command line: one file a command, errors caught once, here at the edge."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from crwn import __version__
from crwn.cli import atlas, bench, data, demo, export, learn, predict, report, reproduce, run, serve, tasks
from crwn.errors import CRWNError

STOPPED = "stopped; everything finished before is kept"


class _Commands(TyperGroup):
    """Commands whose interruption is told like any other error; Typer itself would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise CRWNError(STOPPED) from error


app = typer.Typer(
    cls=_Commands,
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
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        _tell(error)
        sys.exit(1)


def _tell(error: BaseException) -> None:
    if isinstance(error, BrokenPipeError):
        # The reader went away (`crwn tasks ... | head`): there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if _interrupted(error):
        text = STOPPED
    elif isinstance(error, MemoryError):
        text = "not enough memory: use a smaller model or fewer rows"
    elif isinstance(error, CRWNError | OSError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}: crwn did not expect this; --debug shows where it happened"
    print("error:", " ".join(text.split()), file=sys.stderr)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: where it meets an import, libraries raise something of their own."""
    while error is not None and not isinstance(error, CRWNError):
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
