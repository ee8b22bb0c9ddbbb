"""`crwn bench`: how fast it is here, each figure a ratio of two things measured alternately in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

EPILOG = "Example: crwn bench training --json"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="training, convolution, mixed, scaling, memory; all by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes, in seconds: shows that it works, not how fast it is.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Makes weights, contexts and batches.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the whole record to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure speed here: ratios against a paper-style implementation, dense weights, loops over tasks and peers.

    Larger than 1 is better for crwn. The two sides of a ratio are measured in turns, so that what else the machine
    does meets both.
    """
    from crwn.allocation import keep_freed_memory
    from crwn.bench import measure_all

    keep_freed_memory()  # as `crwn run` does; the other sides of the ratios get it too
    record = measure_all(names or [], quick=quick, seed=seed, tell=lambda line: typer.echo(line, err=True))
    text = json.dumps(record, indent=1)
    if out is not None:
        from crwn.files import write_whole

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
