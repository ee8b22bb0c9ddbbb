"""`crwn data`: list, fetch and import datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crwn.cli.options import AsJson

app = typer.Typer(
    help="List, fetch and import datasets.", no_args_is_help=True, epilog="Example: crwn data fetch mnist"
)


@app.command("list", epilog="Example: crwn data list --json")
def list_sets(as_json: AsJson = False) -> None:
    """List every dataset that can be fetched or is in the cache ($CRWN_DATA, or the user's cache folder)."""
    from crwn.data import available

    sets = available()
    if as_json:
        typer.echo(json.dumps(sets))
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Column, Table

    name = Column("name", no_wrap=True)
    table = Table(name, "classes", "training", "test", "shape", "from, or how to get it", box=SIMPLE)
    for entry in sets:
        if entry["cached"]:
            counts = [f"{entry[count]:,}" for count in ("classes", "train_rows", "test_rows")]
            cells = [*counts, " x ".join(str(size) for size in entry["shape"]), entry["source"]]
        else:
            cells = ["", "", "", "", entry.get("problem") or entry["get"]]
        table.add_row(entry["name"], *cells)
    Console().print(table)


@app.command(epilog="Example: crwn data fetch mnist")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="digits, mnist or cifar100.")],
    as_json: AsJson = False,
) -> None:
    """Download a dataset, check it, and store it in the cache."""
    from crwn.data import fetch as fetch_set
    from crwn.data import progress_bar

    with progress_bar() as progress:
        facts = fetch_set(name, progress=progress)
    _print_facts(facts, as_json)


@app.command("import", epilog="Example: crwn data import flowers flowers.zip")
def import_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="mnist, cifar100, mini_imagenet, or any new name.")],
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="`.npz` with x and y; x.npy beside y.npy; CSV with a `label` column; a folder or zip of images, one "
            "folder per class, optionally inside `train` and `test`; for mnist a folder of its four original files.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Read a file or folder into the cache; TOML scenarios refer to it as `data = "NAME"`."""
    from crwn.data import import_data, progress_bar

    with progress_bar() as progress:
        facts = import_data(name, path, progress=progress)
    _print_facts(facts, as_json)


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    shape = " x ".join(str(size) for size in facts["shape"])
    typer.echo(
        f"{facts['name']}: {facts['train_rows']:,} training and {facts['test_rows']:,} test rows of {shape}, "
        f"{facts['classes']} classes, from {facts['source']}"
    )
