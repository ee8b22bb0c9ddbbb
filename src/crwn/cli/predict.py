"""`crwn predict`: predict the labels of the rows of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.options import AsJson, DataFile, ModelOrRun

if TYPE_CHECKING:
    from crwn.learner import Learner
    from crwn.learner.task_inference import TaskScore

EPILOG = "Example: crwn predict digits.crwn upright-test.npz --task upright --json"


def command(
    model: ModelOrRun,
    data: DataFile,
    task: Annotated[
        str | None, typer.Option(help="Task of the rows; by default it is inferred from all rows together.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of a file's rows, one line per row; the accuracy too where the file has labels."""
    from crwn.data import in_order, progress_bar, read_table
    from crwn.learner import Learner

    with progress_bar() as progress:
        x, y, columns = read_table(data, progress=progress)
    with Learner.load(model) as learner:
        ranked = None
        names = learner.bank.names(limit=2)
        if task is None and len(names) == 1:
            task = names[0]
        if task is None:
            ranked = _infer(learner, x, columns, str(data))
            task = ranked[0].task
        wanted = learner.context(task).info.columns
        if columns is not None and wanted is not None:
            x = in_order(x, columns, wanted, str(data))
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


def _infer(learner: Learner, x: Any, columns: Sequence[str] | None, where: str) -> list[TaskScore]:
    """Rank tasks by how well they fit the rows, with the columns in the order that each task was learned from."""
    from crwn.data import in_order

    if columns is None or not len(learner.bank):
        return learner.infer_task(x)
    orders: dict[tuple[str, ...] | None, list[str]] = {}
    for entry in learner.bank.entries():
        orders.setdefault(entry.info.columns, []).append(entry.name)
    fitting = [order for order in orders if order is None or sorted(order) == sorted(columns)]
    if not fitting:
        in_order(x, columns, next(order for order in orders if order is not None), where)  # raises with the difference
    ranked = [
        learner.infer_task(x if order is None else in_order(x, columns, order, where), tasks=orders[order])
        for order in fitting
    ]
    if len(ranked) == 1:
        return ranked[0]
    return sorted((one for part in ranked for one in part), key=lambda one: (one.strange, -one.score))
