"""The command line: one file per command, and the demo.

Commands parse arguments and print results; the work is done by the rooms below. Errors are caught once, in `main`.
May import: every room.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import typer
from typer.core import TyperGroup

from crwn import __version__
from crwn._utils import QUIET
from crwn.cli import (
    atlas,
    backup,
    bench,
    classify,
    compare,
    data,
    export,
    extend,
    forget,
    import_context,
    learn,
    learn_all,
    predict,
    report,
    reproduce,
    restore,
    run,
    search,
    serve,
    share,
    tasks,
)
from crwn.cli.demo import demo
from crwn.errors import CRWNError, StoppedError, hide_passwords

STOPPED = "stopped; everything finished before is saved"
INTERRUPTED = 130  # the exit status of a program that Ctrl-C stopped: 128 + SIGINT


class _Commands(TyperGroup):
    """Commands that report an interruption (Ctrl-C) like any other error; Typer exits without a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise StoppedError(STOPPED) from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of docstrings are wrapped to the terminal
    epilog="Example: crwn demo. `crwn COMMAND --help` describes a command. Anywhere: `--quiet` leaves out progress and "
    "notes, `--debug` adds the traceback to an error.",
)
# In the order of `crwn --help`; a command has the name of its file.
for _file in (
    *(demo, run, compare, search, reproduce, report, learn, learn_all, predict, tasks, forget, export, import_context),
    *(extend, share, classify),
    *(backup, restore),
    *(atlas, serve, bench),
):
    app.command(_file.__name__.rpartition(".")[2].replace("_", "-"), epilog=_file.EPILOG)(_file.command)
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
    """Run a command; an error is printed as one line on stderr (`--debug` adds the traceback)."""
    debug, quiet = _taken("--debug"), _taken("--quiet")
    try:
        with _quiet() if quiet else nullcontext():
            app()
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        print_error(error)
        sys.exit(INTERRUPTED if _interrupted(error) or isinstance(error, StoppedError) else 1)


def _taken(flag: str) -> bool:
    """Whether a flag that every command has is among the arguments; it is removed from them."""
    if flag not in sys.argv:
        return False
    sys.argv.remove(flag)
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress and no notes on stderr, here and in processes that are started."""
    before = os.environ.get(QUIET, "")
    os.environ[QUIET] = "1"
    try:
        yield
    finally:
        os.environ[QUIET] = before


def print_error(error: BaseException) -> None:
    """Print an error as one line on stderr."""
    if isinstance(error, BrokenPipeError):
        # The reader of stdout has ended (`crwn tasks ... | head`): further output is discarded.
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
    print("error:", hide_passwords(" ".join(text.split())), file=sys.stderr)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused an error: libraries that are interrupted in an import raise errors of other types."""
    while error is not None and not isinstance(error, CRWNError):
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
