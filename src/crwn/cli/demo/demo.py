"""`crwn demo`: continual learning on real digits, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crwn.cli.options import counted, note
from crwn.errors import MissingExtraError, StoppedError

if TYPE_CHECKING:
    from crwn.cli.demo.runs import Demo

EPILOG = "Example: crwn demo --out demo"


def command(
    out: Annotated[Path, typer.Option(help="Folder for the model, the runs, the pictures and the HTML report.")] = Path(
        "demo"
    ),
    data: Annotated[
        str | None, typer.Option(help="mnist or digits; by default mnist, or digits if MNIST cannot be downloaded.")
    ] = None,
) -> None:
    """Learn six rotations of the digits with three methods, compare their forgetting, write a model and a report."""
    from crwn.cli.demo.runs import run_demo
    from crwn.cli.progress import RunBars

    with RunBars() as bars:
        try:
            demo = run_demo(out, progress=bars, data=data)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; finished tasks are saved in {out}: the same command resumes") from None
    if demo.offline:
        note(f"note: MNIST is not available, scikit-learn's digits are used instead ({demo.offline})")
    typer.echo(_table(demo))
    typer.echo("")
    for line in _written(demo):
        typer.echo(line)
    typer.echo(_next(demo))


def _table(demo: Demo) -> str:
    from crwn.report.tables import aligned

    results = demo.results
    names = next(iter(results.values())).tasks
    rows = [[name, *(f"{result.accuracy[i]:.1f}%" for result in results.values())] for i, name in enumerate(names)]
    facts = {
        "average": [f"{result.average_accuracy:.1f}%" for result in results.values()],
        "forgetting": [f"{result.forgetting:.1f} points" for result in results.values()],
        "parameters per task": [f"{result.params_per_task:,}" for result in results.values()],
        "bytes per task": [f"{result.bytes_per_task:,}" for result in results.values()],
        "seconds per task": [f"{result.seconds_per_task:.1f}" for result in results.values()],
    }
    rows += [[label, *values] for label, values in facts.items()]
    title = f"Six rotations of {demo.data}, learned one after another; test accuracy of each task after the last:\n"
    return f"{title}\n{aligned(['task', *results], rows)}"


def _written(demo: Demo) -> list[str]:
    from crwn.cli.demo.pictures import draw_accuracy
    from crwn.insight.atlas import make_atlas, write_atlas

    lines = [f"model     {demo.model} ({counted(len(demo.collection.names), 'task')})"]
    drawn = draw_accuracy(demo, demo.folder / "accuracy")
    lines.append(f"picture   {drawn[0]}: every task over time; a falling line is forgetting")
    atlas = write_atlas(make_atlas(demo.collection, permutations=200), demo.folder / "atlas")
    grid = next((path for path in atlas if "input" in path.name and path.suffix == ".png"), atlas[0])
    lines.append(f"pictures  {grid.parent}: the contexts; {grid.name} shows the input layer of each as an image")
    try:
        from crwn.report.page import write_page

        page = demo.folder / "report.html"
        write_page(demo.folder / "runs", page)
        lines.append(f"report    {page}: open it in a browser")
    except MissingExtraError as error:
        lines.append(f"report    none: {error}")
    return lines


def _next(demo: Demo) -> str:
    ideas = {
        f"crwn tasks {demo.model}": "the tasks of the model",
        f"crwn serve {demo.model}": "a web page: draw a digit, see the prediction of every task",
        "crwn learn my.crwn first DATA.csv": "learn from your data: .csv, .npz, or folders of images",
        "crwn run rotated-mnist neuromodnet --tasks 36": "the paper's benchmark",
    }
    width = max(len(command) for command in ideas)
    return "\n".join(["", "Try next:", *(f"  {command:<{width}}  {why}" for command, why in ideas.items())])
