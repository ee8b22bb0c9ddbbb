"""`crwn reproduce`: the paper's tables and figures; runs that are missing are done first."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crwn.cli.options import Address, counted, note, terminal_width

if TYPE_CHECKING:
    from crwn.experiments.plan import Outcome, Planned
    from crwn.experiments.suite import Suite

EPILOG = "Example: crwn reproduce table1 --tasks 2 --seeds 0"


def command(
    what: Annotated[str, typer.Argument(metavar="TABLE", help="table1, table2, table3, table4, figures, or all.")],
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Only this many tasks of each scenario; by default all, as in the paper.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds; the paper has three.")] = "0,1,2",
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many minutes; the same command resumes.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, where tables/ and figures/ are written.")] = Path(
        "runs"
    ),
    engine: Annotated[
        str, typer.Option(help="local (one run after another), or several at once by workers: processes or ray.")
    ] = "local",
    address: Address = None,
) -> None:
    """Do the missing runs of a table, cheapest first, and print the table beside the paper's results.

    Stopped at any moment, the same command resumes. `figures` draws from the runs that exist.
    """
    from crwn.cli.progress import RunBars
    from crwn.errors import ConfigError, CRWNError, StoppedError
    from crwn.experiments.config import ENGINES, parse_seeds
    from crwn.experiments.environment import usual_threads
    from crwn.experiments.plan import carry_out, carry_out_on_workers, plan
    from crwn.experiments.suite import SUITES, load_suite
    from crwn.training.allocation import keep_freed_memory

    began = time.monotonic()
    keep_freed_memory()
    if what not in (*SUITES, "figures", "all"):
        raise ConfigError(f"there is no {what!r} to reproduce: choose one of {', '.join(SUITES)}, figures, all")
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine {engine!r}: choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")
    if address is not None and engine != "ray":
        raise ConfigError(f"address {address} is that of a Ray cluster, but the engine is {engine}")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file: give a folder as --out")
    chosen = parse_seeds(seeds)
    suites = [load_suite(name) for name in SUITES if what in (name, "all", "figures")]
    if what != "figures":
        planned = plan(suites, out, tasks=tasks, seeds=chosen)
        _print_plan(planned)
        deadline = None if minutes is None else began + 60 * minutes
        with RunBars() as bars:
            try:
                if engine != "local":
                    threads = usual_threads() if os.environ.get("OMP_NUM_THREADS") else 1
                    outcome = carry_out_on_workers(
                        planned, engine=engine, address=address, threads=threads, deadline=deadline, progress=bars
                    )
                else:
                    outcome = carry_out(planned, deadline=deadline, progress=bars)
            except KeyboardInterrupt:
                raise StoppedError(f"stopped; finished tasks are saved in {out}: the same command resumes") from None
        worked = any(not item.is_done for item in planned)
        _tables(suites, out, tasks, chosen)
        _print_outcome(outcome)
    else:
        worked = True
    if what == "figures" or (what == "all" and worked):
        from crwn.report.figures import draw_all

        written = draw_all(out, out / "figures", tasks=tasks)
        for path in written:
            note(f"wrote {path}")
        if not written:
            raise ConfigError(f"no finished run of a suite under {out} to draw: `crwn reproduce table1` makes them")
    if what != "figures" and outcome.failures:
        item, error = outcome.failures[0]
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise CRWNError(f"{item.name}{more} failed: {error}")


def _tables(suites: list[Suite], out: Path, tasks: int | None, seeds: list[int]) -> None:
    """Print the tables and write them to `tables/` as Markdown, CSV and LaTeX."""
    from crwn._utils import write_whole
    from crwn.experiments.suite import fill
    from crwn.report.suite_tables import as_csv, suite_latex, suite_text

    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        filled = [fill(cell, out, tasks=tasks, seeds=seeds) for cell in suite.cells()]
        text = suite_text(suite, filled)
        typer.echo(suite_text(suite, filled, width=terminal_width()))
        name = suite.name if tasks is None else f"{suite.name}-tasks={tasks}"
        write_whole(folder / f"{name}.md", text.encode())
        write_whole(folder / f"{name}.csv", as_csv(filled).encode())
        write_whole(folder / f"{name}.tex", suite_latex(suite, filled).encode())


def _print_plan(planned: list[Planned]) -> None:
    left = [item for item in planned if not item.is_done]
    note(f"{len(planned) - len(left)} of {len(planned)} runs are done")
    if left:
        note(f"{len(left)} left, about {duration(sum(item.seconds_left for item in left))}, cheapest first:")
    for item in left:
        begun = f", {item.tasks_done} of {item.tasks} tasks done" if item.tasks_done else ""
        note(f"  about {duration(item.seconds_left):>10}  {item.name}{begun}")


def _print_outcome(outcome: Outcome) -> None:
    for item, error in outcome.failures:
        note(f"failed: {item.name}: {error}")
    if outcome.left:
        rest = duration(sum(item.seconds_left for item in outcome.left))
        note(f"the time is up: {counted(len(outcome.left), 'run')} left, about {rest}; the same command resumes")


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours.

    >>> duration(40), duration(700), duration(12700)
    ('40 s', '12 min', '3.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
