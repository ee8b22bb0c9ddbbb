"""`crwn demo`: what crwn does, in about a minute, on real digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crwn.errors import CRWNError, MissingExtraError

if TYPE_CHECKING:
    from crwn.demo import Story

EPILOG = "Example: crwn demo --out demo"


def command(
    out: Annotated[Path, typer.Option(help="Folder for the model, the runs, the pictures and the page.")] = Path(
        "demo"
    ),
    data: Annotated[str | None, typer.Option(help="mnist or digits; mnist by default where it can be had.")] = None,
) -> None:
    """Learn six turns of the digits three ways, see who forgets, and keep model, pictures and a report."""
    from crwn.cli.watching import RunBars
    from crwn.demo import tell

    with RunBars() as bars:
        try:
            story = tell(out, watcher=bars, data=data)
        except KeyboardInterrupt:
            raise CRWNError(f"stopped; what is learned is kept in {out}: the same command goes on") from None
    if story.offline:
        typer.echo(f"note: MNIST could not be had, scikit-learn's digits stand in for it ({story.offline})", err=True)
    typer.echo(_table(story))
    typer.echo("")
    for line in _written(story):
        typer.echo(line)
    typer.echo(_next(story))


def _table(story: Story) -> str:
    from crwn.report.tables import aligned

    results = story.results
    names = next(iter(results.values())).tasks
    rows = [[name, *(f"{result.accuracy[i]:.1f}%" for result in results.values())] for i, name in enumerate(names)]
    facts = {
        "average": [f"{result.average_accuracy:.1f}%" for result in results.values()],
        "forgotten since it was learned": [f"{result.forgetting:.1f} points" for result in results.values()],
        "numbers learned per task": [f"{result.params_per_task:,}" for result in results.values()],
        "bytes per task": [f"{result.bytes_per_task:,}" for result in results.values()],
        "seconds per task": [f"{result.seconds_per_task:.1f}" for result in results.values()],
    }
    rows += [[label, *values] for label, values in facts.items()]
    title = f"Six turns of {story.data}, learned one after another; accuracy of each task after the last:\n"
    return f"{title}\n{aligned(['task', *results], rows)}"


def _written(story: Story) -> list[str]:
    from crwn.demo.pictures import draw_accuracy
    from crwn.insight.atlas import make_atlas, write_atlas

    lines = [f"model     {story.model} ({len(story.collection.names)} tasks)"]
    drawn = draw_accuracy(story, story.folder / "accuracy")
    lines.append(f"picture   {drawn[0]}: every task over time; a falling line is forgetting")
    atlas = write_atlas(make_atlas(story.collection, permutations=200), story.folder / "atlas")
    grid = next((path for path in atlas if "input" in path.name and path.suffix == ".png"), atlas[0])
    lines.append(f"pictures  {grid.parent}: the contexts; {grid.name} shows the input layer's as images")
    try:
        from crwn.report.page import write_page

        page = story.folder / "report.html"
        write_page(story.folder / "runs", page)
        lines.append(f"page      {page}: open it in a browser")
    except MissingExtraError as error:
        lines.append(f"page      none: {error}")
    return lines


def _next(story: Story) -> str:
    ideas = {
        f"crwn tasks {story.model}": "what the model knows",
        f"crwn serve {story.model}": "draw a digit, see every task's answer",
        "crwn learn my.crwn first DATA.csv": "your own data: .csv, .npz, or folders of images",
        "crwn run rotated-mnist neuromodnet --tasks 36": "the paper's benchmark",
    }
    width = max(len(command) for command in ideas)
    return "\n".join(["", "Try next:", *(f"  {command:<{width}}  {why}" for command, why in ideas.items())])
