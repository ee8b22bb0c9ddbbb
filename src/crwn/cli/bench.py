"""`crwn bench`: speed on this machine, as ratios of two implementations measured alternately."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson, note

EPILOG = "Example: crwn bench training --json"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="training, convolution, mixed, scaling, memory, serve, images, exact, adapters, adapter_speeds; all.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes, a few seconds: a check that it works, no measurement.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of weights, contexts and batches.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the full record to this JSON file.")] = None,
    against: Annotated[
        Path, typer.Option(help="Folder of earlier records (training.json, ...) to print beside.")
    ] = Path("results/bench"),
    as_json: AsJson = False,
) -> None:
    """Measure speed: ratios against a paper-style implementation, dense weights, loops over tasks and other libraries.

    A ratio above 1 means that crwn is faster or smaller. The two sides of a ratio are measured alternately, so that
    other load on the machine affects both.
    """
    from crwn.bench import measure_all
    from crwn.training.allocation import keep_freed_memory

    keep_freed_memory()  # as `crwn run` does; it holds for both sides of every ratio
    record = measure_all(names or [], quick=quick, seed=seed, progress=note)
    text = json.dumps(record, indent=1)
    if out is not None:
        from crwn._utils import write_whole

        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, (text + "\n").encode())
    typer.echo(text if as_json else _table(record, against))


def _table(record: dict[str, Any], against: Path) -> str:
    from crwn.bench.record import place, recorded
    from crwn.report.tables import aligned

    before = [
        one
        for name in sorted({name.partition(".")[0] for name in record["details"]})
        for one in recorded(against, name)
    ]
    rows = []
    for name, detail in record["details"].items():
        low, high = detail["spread"]
        known = [f"{one['details'][name]['value']:.4g}" for one in before if name in one["details"]]
        rows.append(
            [name, f"{detail['value']:.4g}", f"{low:.4g} – {high:.4g}", ", ".join(known) or "–", detail["what"]]
        )
    lines = [aligned(["figure", "median", "spread", "recorded", "what"], rows), f"here: {place(record)}"]
    lines += [f"recorded on: {where}" for where in dict.fromkeys(place(one) for one in before)]
    return "\n".join([*lines, *(f"note: {note}" for note in record["notes"])])
