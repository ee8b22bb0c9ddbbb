"""`crwn predict`: labels for the rows of a file."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson, DataFile, ModelFolder

EPILOG = "Example: crwn predict digits.crwn upright-test.npz --task upright --json"


def command(
    model: ModelFolder,
    data: DataFile,
    task: Annotated[str | None, typer.Option(help="The rows' task; inferred for all of them when left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of a file's rows: one line per row, or JSON with the accuracy where the file has labels."""
    from crwn.data import in_order, progress_bar, read_table
    from crwn.learner import Learner

    with progress_bar() as progress:
        x, y, columns = read_table(data, progress=progress)
    with Learner.load(model) as learner:
        ranked = None
        named = [task] if task is not None else learner.bank.names(limit=1)
        learned_from = learner.context(named[0]).info.get("columns") if named else None
        if columns is not None and learned_from is not None:
            x = in_order(x, columns, learned_from, str(data))
        if task is None:
            names = learner.bank.names(limit=2)
            if len(names) == 1:
                task = names[0]
            else:
                ranked = learner.infer_task(x)
                task = ranked[0].task
        predictions = learner.predict(x, task=task).tolist()
    facts: dict[str, Any] = {"model": str(model), "task": task, "predictions": predictions}
    if ranked is not None:
        facts["inferred"] = [{"task": one.task, "score": round(one.score, 4)} for one in ranked[:5]]
    if y is not None:
        right = sum(bool(a == b) for a, b in zip(predictions, y.tolist(), strict=True))
        facts["accuracy"] = round(100 * right / len(predictions), 2)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for label in predictions:
        typer.echo(label)
    if ranked is not None:
        typer.echo(f'inferred task: "{task}" (score {ranked[0].score:.3f})', err=True)
    if y is not None:
        typer.echo(f"accuracy: {facts['accuracy']:.2f}% of {len(predictions):,} rows", err=True)
