"""`crwn atlas`: how the tasks of a model relate, computed from their contexts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelOrRun, note

EPILOG = "Example: crwn atlas runs/rotated-mnist/neuromodnet-256/seed-0"


def command(
    place: ModelOrRun,
    out: Annotated[Path | None, typer.Option(help="Output folder; MODEL_OR_RUN/atlas by default.")] = None,
    measure: Annotated[
        str, typer.Option(help="Similarity of two contexts: cosine, euclidean or rank (Spearman).")
    ] = "cosine",
    permutations: Annotated[int, typer.Option(min=99, help="Permutations of the tasks for every p-value.")] = 9999,
    as_json: AsJson = False,
) -> None:
    """Draw how the tasks of a model or a run relate, and test whether that follows their known factors.

    Factors are what a scenario states about its tasks (angle, classes), or numbers in the names of the tasks. Writes
    pictures (PNG and SVG), tasks.csv, similarity.csv and atlas.json. Needs at least three tasks.
    """
    from crwn.insight import collect, make_atlas, summary, write_atlas
    from crwn.insight.atlas import summary_lines
    from crwn.learner.folder import find_folder

    folder = find_folder(place, first=True)
    if folder != place:
        note(f"note: the atlas is of {folder}")
    found = collect(folder)
    atlas = make_atlas(found, measure=measure, permutations=permutations)
    target = place / "atlas" if out is None else out
    written = write_atlas(atlas, target)
    if as_json:
        typer.echo(json.dumps({**summary(atlas), "files": [str(path) for path in written]}))
        return
    for line in summary_lines(atlas):
        typer.echo(line)
    if len(atlas.collection) < len(found):
        note(f"note: {len(atlas.collection)} of {len(found)} tasks, spread evenly over their names")
    note(f"wrote {len(written)} files to {target}")
