"""`crwn tasks`: list the tasks of a model folder or a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from crwn.cli.options import AsJson, ModelOrRun, counted, terminal_width

if TYPE_CHECKING:
    from crwn.contexts import ContextInfo

EPILOG = "Example: crwn tasks digits.crwn --prefix site-"


def command(
    model: ModelOrRun,
    prefix: Annotated[str, typer.Option(help="Only tasks whose names start with this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a model: classes, learned parameters, bytes, accuracy and date of each."""
    from crwn.learner.folder import open_folder_bank

    with open_folder_bank(model) as bank:
        entries = bank.entries(prefix, limit=limit)
        count = len(bank)
    if as_json:
        listed = [
            {
                "task": one.name,
                "classes": list(one.classes),
                "params_per_task": one.params,
                "params": one.params,  # name of earlier versions
                "bytes": one.bytes,
                "created": one.created,
                "rows": one.info.rows,
                "accuracy": one.info.accuracy,
                "kind": one.info.kind,
                "majority": one.info.majority,
                "balanced_accuracy": one.info.balanced_accuracy,
                "r2": one.info.r2,
                "held_out": one.info.held_out,
            }
            for one in entries
        ]
        typer.echo(json.dumps({"model": str(model), "count": count, "tasks": listed}))
        return
    from crwn.report.tables import fitted

    rows = []
    for one in entries:
        accuracy = _figures(one.info, len(one.classes))
        counts = [f"{number:,}" for number in (len(one.classes), one.params, one.bytes)]
        rows.append([one.name, *counts, accuracy, one.created[:19].replace("T", " ")])
    if rows:
        head = ["task", "classes", "parameters", "bytes", "accuracy", "learned (UTC)"]
        typer.echo(fitted(head, rows, terminal_width()))
    more = f" (the first {len(rows):,} are shown)" if count > len(rows) and not prefix else ""
    typer.echo(f"{counted(count, 'task')} in {model}{more}")
    for one in entries:
        if one.damage:
            typer.echo(f'task "{one.name}" is damaged: {one.damage}', err=True)


def _figures(info: ContextInfo, classes: int) -> str:
    """The figures of a task on held-out rows, or on the training rows where none were held out."""
    from crwn.learner.judge import verdict

    found = verdict(info, classes)
    parts = [found.figures] if found.figures else []
    if info.accuracy is None and info.training_accuracy is not None:
        parts.append("(training)")
    if found.warning:
        parts.append("(no better than a constant answer)")
    return " ".join(parts)
