"""`crwn tasks` and `crwn forget`: what a model folder knows, and dropping some of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelFolder, counted

EPILOG = "Example: crwn tasks digits.crwn --prefix site-"
FORGET_EPILOG = "Example: crwn forget digits.crwn upright"


def command(
    model: ModelFolder,
    prefix: Annotated[str, typer.Option(help="Only tasks whose names start with this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a model folder."""
    from crwn.bank import open_bank
    from crwn.model_folder import BANK, read_description

    fingerprint = read_description(model)["fingerprint"]
    with open_bank(model / BANK, model=fingerprint, create=False) as bank:
        entries = bank.entries(prefix, limit=limit)
        count = len(bank)
    if as_json:
        listed = [
            {
                "task": one.name,
                "classes": list(one.classes),
                "params": one.numbers,
                "bytes": one.bytes,
                "created": one.created,
                "rows": one.info.get("rows"),
                "accuracy": one.info.get("accuracy"),
            }
            for one in entries
        ]
        typer.echo(json.dumps({"model": str(model), "count": count, "tasks": listed}))
        return
    from crwn.report.tables import aligned

    rows = []
    for one in entries:
        accuracy = _accuracy(one.info.get("accuracy"), one.info.get("training_accuracy"))
        numbers = [f"{number:,}" for number in (len(one.classes), one.numbers, one.bytes)]
        rows.append([one.name, *numbers, accuracy, one.created[:19].replace("T", " ")])
    if rows:
        typer.echo(aligned(["task", "classes", "numbers", "bytes", "accuracy", "learned (UTC)"], rows))
    more = f" (the first {len(rows):,} are shown)" if count > len(rows) and not prefix else ""
    typer.echo(f"{counted(count, 'task')} in {model}{more}")


def _accuracy(held_out: object, own: object) -> str:
    """Percent right on rows held out; on a task's own rows where there were none."""
    if isinstance(held_out, int | float):
        return f"{held_out:.1f}%"
    return f"{own:.1f}% (own rows)" if isinstance(own, int | float) else ""


def forget(
    model: ModelFolder,
    task: Annotated[str, typer.Argument(help="Name of the task.")],
    as_json: AsJson = False,
) -> None:
    """Drop a task for good; all others stay as they are."""
    from crwn.bank import open_bank
    from crwn.model_folder import BANK, read_description

    fingerprint = read_description(model)["fingerprint"]
    with open_bank(model / BANK, model=fingerprint, create=False) as bank:
        bank.delete(task)
        left = len(bank)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "forgot": task, "tasks": left}))
    else:
        typer.echo(f'forgot "{task}"; {counted(left, "task")} left in {model}')
