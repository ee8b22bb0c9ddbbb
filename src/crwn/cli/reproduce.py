"""`crwn reproduce`: the paper's tables and figures, from the runs that are there and those that are missing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crwn.experiments.plan import Outcome, Planned
    from crwn.experiments.suite import Suite

EPILOG = "Example: crwn reproduce table1 --tasks 2 --seeds 0"


def command(
    what: Annotated[str, typer.Argument(help="table1, table2, table3, table4, figures, or all.")],
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Only the first tasks; by default all, as the paper.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds with commas between; the paper has three.")] = "0,1,2",
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop cleanly after this long; call again to go on.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, where tables/ and figures/ are written.")] = Path(
        "runs"
    ),
    engine: Annotated[
        str, typer.Option(help="Where runs are done: local, or by several workers at once: processes or ray.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster; by default one is started here for the time.")
    ] = None,
) -> None:
    """Do the runs of a table that are missing, cheapest first, and print it beside the paper's numbers.

    Stopped at any moment, the same command goes on. `figures` draws from the runs that are there.
    """
    from crwn.allocation import keep_freed_memory
    from crwn.cli.watching import RunBars
    from crwn.errors import ConfigError, CRWNError
    from crwn.experiments.config import ENGINES, parse_seeds
    from crwn.experiments.plan import carry_out, carry_out_on_workers, plan
    from crwn.experiments.suite import SUITES, load_suite
    from crwn.experiments.surroundings import usual_threads

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
    numbers = parse_seeds(seeds)
    suites = [load_suite(name) for name in SUITES if what in (name, "all", "figures")]
    if what != "figures":
        planned = plan(suites, out, tasks=tasks, seeds=numbers)
        _tell_plan(planned)
        deadline = None if minutes is None else began + 60 * minutes
        with RunBars() as bars:
            try:
                if engine != "local":
                    threads = usual_threads() if os.environ.get("OMP_NUM_THREADS") else 1
                    outcome = carry_out_on_workers(
                        planned, engine=engine, address=address, threads=threads, deadline=deadline, watcher=bars
                    )
                else:
                    outcome = carry_out(planned, deadline=deadline, watcher=bars)
            except KeyboardInterrupt:
                raise CRWNError(f"stopped; everything done is kept in {out}: the same command goes on") from None
        worked = any(not item.is_done for item in planned)
        _tables(suites, out, tasks, numbers)
        _tell_outcome(outcome)
    else:
        worked = True
    if what == "figures" or (what == "all" and worked):
        from crwn.report.figures import draw_all

        written = draw_all(out, out / "figures", tasks=tasks)
        for path in written:
            _say(f"wrote {path}")
        if not written:
            raise ConfigError(f"no finished run of a suite under {out} to draw: `crwn reproduce table1` makes them")
    if what != "figures" and outcome.failures:
        item, error = outcome.failures[0]
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise CRWNError(f"{item.name}{more} failed: {error}")


def _tables(suites: list[Suite], out: Path, tasks: int | None, seeds: list[int]) -> None:
    """Print the tables and keep them under `tables/` as Markdown, CSV and LaTeX."""
    from crwn.experiments.suite import fill
    from crwn.files import write_whole
    from crwn.report.tables import as_csv, suite_latex, suite_text

    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        filled = [fill(cell, out, tasks=tasks, seeds=seeds) for cell in suite.cells()]
        text = suite_text(suite, filled)
        typer.echo(text)
        name = suite.name if tasks is None else f"{suite.name}-tasks={tasks}"
        write_whole(folder / f"{name}.md", text.encode())
        write_whole(folder / f"{name}.csv", as_csv(filled).encode())
        write_whole(folder / f"{name}.tex", suite_latex(suite, filled).encode())


def _tell_plan(planned: list[Planned]) -> None:
    left = [item for item in planned if not item.is_done]
    _say(f"{len(planned) - len(left)} of {len(planned)} runs are done")
    if left:
        _say(f"{len(left)} left, about {duration(sum(item.seconds_left for item in left))}, cheapest first:")
    for item in left:
        begun = f", {item.tasks_done} of {item.tasks} tasks done" if item.tasks_done else ""
        _say(f"  about {duration(item.seconds_left):>10}  {item.name}{begun}")


def _tell_outcome(outcome: Outcome) -> None:
    for item, error in outcome.failures:
        _say(f"failed: {item.name}: {error}")
    if outcome.left:
        rest = duration(sum(item.seconds_left for item in outcome.left))
        _say(f"the time is up: {len(outcome.left)} runs left, about {rest}; the same command goes on")


def duration(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(text: str) -> None:
    typer.echo(text, err=True)
