"""`crwn atlas`: how tasks relate, from what they learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

EPILOG = "Example: crwn atlas runs/rotated-mnist/neuromodnet-256"


def command(
    place: Annotated[
        Path, typer.Argument(metavar="MODEL_OR_RUN", help="A model folder, or the folder of a run with its state/.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures and tables; MODEL_OR_RUN/atlas by default.")
    ] = None,
    measure: Annotated[str, typer.Option(help="How alike contexts are: cosine, euclidean or rank.")] = "cosine",
    permutations: Annotated[int, typer.Option(min=99, help="Shufflings of the tasks behind every p-value.")] = 9999,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Draw how the tasks of a model or a run relate, and test whether that follows what is known about them.

    Writes pictures (PNG and SVG), tasks.csv, similarity.csv and atlas.json.
    """
    from crwn.insight import collect, make_atlas, summary, write_atlas
    from crwn.insight.atlas import told

    found = collect(place)
    atlas = make_atlas(found, measure=measure, permutations=permutations)
    folder = place / "atlas" if out is None else out
    written = write_atlas(atlas, folder)
    if as_json:
        typer.echo(json.dumps({**summary(atlas), "files": [str(path) for path in written]}))
        return
    for line in told(atlas):
        typer.echo(line)
    if len(atlas.collection) < len(found):
        typer.echo(f"note: {len(atlas.collection)} of {len(found)} tasks, spread evenly over their names", err=True)
    typer.echo(f"wrote {len(written)} files to {folder}", err=True)
