"""`crwn learn-all`: every table of a folder as a task, with a leaderboard."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.options import AsJson, ModelFolder, counted, note, terminal_width
from crwn.cli.rows import Ignore
from crwn.errors import ConfigError, DataError, StoppedError

EPILOG = "Example: crwn learn-all tables.crwn tables/ --label class --figure leaderboard.png"


def command(
    model: ModelFolder,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder with a CSV or Parquet file for each task; NAME_TRAIN and NAME_TEST are one task.",
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the labels, or first or last; `label` by default."),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether the first line of a file names its columns.")
    ] = True,
    ignore: Ignore = None,
    pattern: Annotated[
        str | None,
        typer.Option(metavar="GLOB", help="Only files with such names, like `*.dat`; all tables by default."),
    ] = None,
    test: Annotated[
        float, typer.Option(help="Share of every table to test with, where it has no file of test rows.")
    ] = 0.25,
    most: Annotated[
        int | None, typer.Option("--most-rows", min=2, help="Learn from so many rows of a table at most.")
    ] = None,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers/--no-peers", help="Compare with logistic regression and gradient boosting of scikit-learn."
        ),
    ] = True,
    replace: Annotated[bool, typer.Option("--replace", help="Learn tables again that the model has.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new model, and of the rows to test with.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the leaderboard, as .csv or .md.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Also draw it, as .png and .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn every table of a folder as a task of one model, and compare it with other classifiers on the same rows.

    Tables may have different columns, text, dates, missing values and numbers of classes. One that cannot be read is
    reported, and the others go on. Stopped, the same command resumes.
    """
    from fnmatch import fnmatch

    from crwn._utils import write_whole
    from crwn.data import progress_bar
    from crwn.data.tables.folder import find_tables
    from crwn.experiments.leaderboard import Reading, learn_tables, make_model
    from crwn.learner import Learner
    from crwn.report.leaderboard import (
        draw_leaderboard,
        leaderboard_csv,
        leaderboard_summary,
        leaderboard_table,
        leaderboard_text,
    )
    from crwn.training.allocation import use_one_thread_if_small

    if not 0 < test < 1:
        raise ConfigError(f"--test {test}: give a share between 0 and 1, like 0.25")
    if out is not None and out.suffix.lower() not in (".csv", ".md"):
        raise ConfigError(f"--out {out}: give a file that ends in .csv or .md")
    how = Reading(label or ("label" if header else "last"), header, tuple(ignore or ()), test, most, seed)
    tables = find_tables(folder, None if pattern is None else lambda path: fnmatch(path.name, pattern))
    if not (model / "model.json").exists():
        if model.exists() and (not model.is_dir() or any(model.iterdir())):
            raise ConfigError(f"{model} exists but is not a model folder: choose another path")
        make_model(model, tables, how, seed=seed)
    lines = []
    with Learner.load(model) as learner, progress_bar() as progress:
        use_one_thread_if_small(learner.model)
        try:
            for line in learn_tables(learner, model, tables, how, replace=replace, peers=peers):
                lines.append(line)
                progress("learning tables", len(lines), len(tables))
        except KeyboardInterrupt:
            raise StoppedError(
                f"stopped; {counted(len(lines), 'table')} of {len(tables)} are done: the same command resumes"
            ) from None
    if all(line.error is not None for line in lines):
        raise DataError(f"no table of {folder} was learned; the first: {lines[0].error}")
    table = leaderboard_table(lines)
    if out is not None:
        text = leaderboard_csv(lines) if out.suffix.lower() == ".csv" else table.markdown() + "\n"
        write_whole(out, text.encode())
    if figure is not None:
        draw_leaderboard(lines, figure)
    if as_json:
        facts = {"model": str(model), "summary": leaderboard_summary(lines), "tables": [asdict(line) for line in lines]}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(table.markdown(terminal_width()))
        typer.echo("\n" + "\n".join(leaderboard_text(lines)))
    for line in lines:
        if line.error is not None:
            note(f"not learned: {line.task}: {line.error}")
