"""`crwn classify`: the class of every row among the classes of all tasks, no task given."""

from __future__ import annotations

import json

import typer

from crwn.cli.module import build_module
from crwn.cli.options import AsJson, DataFile, ModelFolder, Module

EPILOG = "Example: crwn classify photos.crwn new/"


def command(model: ModelFolder, data: DataFile, module: Module = None, as_json: AsJson = False) -> None:
    """Print task, class and probability of every row, by the head that `crwn share` added tasks to."""
    from crwn.data import progress_bar, read_file
    from crwn.learner import Learner

    with Learner.load(model, model=build_module(module)) as learner, progress_bar() as progress:
        given = read_file(data, progress=progress)
        answers = learner.classify(given.x)
    if as_json:
        found = [{"task": one.task, "label": one.label, "probability": round(one.probability, 6)} for one in answers]
        typer.echo(json.dumps({"model": str(model), "answers": found, "files": given.names}))
        return
    for at, one in enumerate(answers):
        place = "" if given.names is None else f"{given.names[at]}\t"
        typer.echo(f"{place}{one.task}\t{one.label}\t{one.probability:.4f}")
