"""`crwn bench`: speed on this machine, as ratios of two implementations measured alternately."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson

EPILOG = "Example: crwn bench training --json"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="training, convolution, mixed, scaling, memory; all by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes, a few seconds: a check that it works, no measurement.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of weights, contexts and batches.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the full record to this JSON file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed: ratios against a paper-style implementation, dense weights, loops over tasks and other libraries.

    A ratio above 1 means that crwn is faster or smaller. The two sides of a ratio are measured alternately, so that
    other load on the machine affects both.
    """
    from crwn.bench import measure_all
    from crwn.training.allocation import keep_freed_memory

    keep_freed_memory()  # as `crwn run` does; it holds for both sides of every ratio
    record = measure_all(names or [], quick=quick, seed=seed, progress=lambda line: typer.echo(line, err=True))
    text = json.dumps(record, indent=1)
    if out is not None:
        from crwn._utils import write_whole

        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, (text + "\n").encode())
    typer.echo(text if as_json else _table(record))


def _table(record: dict[str, Any]) -> str:
    from crwn.report.tables import aligned

    rows = []
    for name, detail in record["details"].items():
        low, high = detail["spread"]
        rows.append([name, f"{detail['value']:.4g}", f"{low:.4g} – {high:.4g}", detail["what"]])
    notes = [f"note: {note}" for note in record["notes"]]
    return "\n".join([aligned(["figure", "median", "spread", "what"], rows), *notes])
