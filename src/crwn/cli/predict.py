"""`crwn predict`: predict the labels of the rows of a file."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.completion import task_names
from crwn.cli.module import build_module
from crwn.cli.options import AsJson, DataFile, ModelOrRun, Module, counted, note
from crwn.errors import ScaleWarning

if TYPE_CHECKING:
    from crwn.data import DataFile as Given
    from crwn.learner import Learner

EPILOG = "Example: crwn predict digits.crwn upright-test.npz --task upright --json"


def command(
    model: ModelOrRun,
    data: DataFile,
    task: Annotated[
        str | None,
        typer.Option(
            help="Task of the rows; by default it is inferred from all rows together.", autocompletion=task_names
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a CSV: file or line of each row, prediction and its probability."),
    ] = None,
    module: Module = None,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of a file's rows, one line per row; the accuracy too where the file has labels.

    Lines of images begin with the file's name. Columns of a table are found by their names, and encoded as they were
    when the task was learned; images are resized to the size that the task was learned from.
    """
    from crwn.data import progress_bar, read_file
    from crwn.learner import Learner

    with Learner.load(model, model=build_module(module)) as learner, progress_bar() as progress:
        given = read_file(data, progress=progress)
        ranked = None
        names = learner.bank.names(limit=2)
        if task is None and len(names) == 1:
            task = names[0]
        if task is None:
            ranked = learner.infer_task(given.x)
            task = ranked[0].task
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ScaleWarning)
            predictions = learner.predict(given.x, task=task).tolist()
        y = _labels(given, learner, task)
        kind = learner.context(task).info.kind
        certain: list[Any] = [None] * len(predictions)
        if out is not None and kind == "classification":
            certain = learner.predict_proba(given.x, task=task).max(axis=1).tolist()
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    facts: dict[str, Any] = {"model": str(model), "task": task, "predictions": predictions}
    files = given.names
    if files is not None:
        facts["files"] = files
    if ranked is not None:
        facts["inferred"] = [{"task": one.task, "score": round(one.score, 4)} for one in ranked[:5]]
        facts["none_of_these"] = ranked.none_of_these
    if y is not None:
        facts |= _scores(predictions, y, kind)
    if out is not None:
        _write(out, given, predictions, certain)
        facts["out"] = str(out)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    if out is None:
        for at, label in enumerate(predictions):
            shown = _cell(label) if kind == "multilabel" else label
            typer.echo(shown if files is None else f"{files[at]}\t{shown}")
    else:
        typer.echo(f"wrote {counted(len(predictions), 'prediction')} to {out}")
    if ranked is not None and ranked.none_of_these:
        note("note: these rows are unlike those that any of the tasks learned from")
    if ranked is not None:
        typer.echo(f'inferred task: "{task}" (score {ranked[0].score:.3f})', err=True)
    if y is not None:
        figure = f"R2 {facts['r2']:.4f}" if kind == "regression" else f"accuracy: {facts['accuracy']:.2f}%"
        typer.echo(f"{figure} of {counted(len(predictions), 'row')}", err=True)


def _scores(predictions: list[Any], y: list[Any], kind: str) -> dict[str, float]:
    """The accuracy of predictions in percent (of all labels of a row, for multilabel), or R2 of a regression."""
    import numpy as np

    from crwn.contexts.kinds import split_labels
    from crwn.learner.answers import r2

    if kind == "regression":
        return {"r2": round(r2(np.asarray(predictions, dtype=float), np.asarray(y, dtype=float)), 4)}
    if kind == "multilabel":
        found: list[Any] = [set(one) for one in predictions]
        wanted: list[Any] = [set(split_labels(label)) for label in y]
    else:
        found, wanted = predictions, y
    right = sum(bool(a == b) for a, b in zip(found, wanted, strict=True))
    return {"accuracy": round(100 * right / len(predictions), 2)}


def _cell(label: Any) -> Any:
    """A prediction as text: the labels of a row as a column of a table has them."""
    from crwn.contexts.kinds import SEPARATOR

    return SEPARATOR.join(map(str, label)) if isinstance(label, tuple | list) else label


def _labels(given: Given, learner: Learner, task: str) -> list[Any] | None:
    """The labels in the file; None where it has none: a table may lack the column, folders may have other names."""
    from crwn.data import ImageFiles, Table
    from crwn.data.tables import labels_of
    from crwn.errors import DataError
    from crwn.learner.encode import encoding_of

    context = learner.context(task)
    if isinstance(given.x, Table):
        encoding = encoding_of(context.info)
        label = "label" if encoding is None else encoding.label
        try:
            several = context.info.kind == "multilabel"
            return labels_of(given.x, label, several=several).tolist() if label in given.x.names else None
        except DataError:  # a row without a label
            return None
    if given.y is None:
        return None
    labels: list[Any] = given.y.tolist()
    return labels if not isinstance(given.x, ImageFiles) or set(labels) & set(context.classes) else None


def _write(path: Path, given: Given, predictions: list[Any], certain: list[Any]) -> None:
    """Write the predictions as CSV, with the file of each image, the line of each row of a table, or its position."""
    from crwn._utils import write_whole
    from crwn.data import Table

    name, places = "row", [str(row) for row in range(len(predictions))]
    if given.names is not None:
        name, places = "file", given.names
    elif isinstance(given.x, Table) and given.x.lines is not None:
        name, places = "line", [str(line) for line in given.x.lines()]
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([name, "prediction", "probability"])
    rows.writerows(
        [place, _cell(label), "" if share is None else f"{share:.4f}"]
        for place, label, share in zip(places, predictions, certain, strict=True)
    )
    write_whole(path, text.getvalue().encode())
