"""`crwn search`: settings of a method, searched with Optuna and judged on held-out training rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crwn.cli.completion import method_names
from crwn.cli.options import AsJson, Batches, Epochs, Scenario, Tasks, note

if TYPE_CHECKING:
    from crwn.experiments.search import Trial

EPILOG = "Example: crwn search rotated-digits neuromodnet --set rate=0.001..0.1 --trials 10 --tasks 4"


def command(
    scenario: Scenario,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="As for `crwn run`.", autocompletion=method_names)],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=RANGE",
            help="What to search: rate=0.001..0.1, batch_size=32..256, optimizer=adam,sgd; one value fixes it.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials in total, those of a stopped search included.")] = 20,
    size: Annotated[str | None, typer.Option(help="The method's size, as for `crwn run`.")] = None,
    tasks: Tasks = None,
    batches: Batches = None,
    epochs: Epochs = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds; a trial is judged by their mean.")] = "0",
    share: Annotated[
        float, typer.Option("--held-out", min=0.01, max=0.9, help="Share of the training rows to judge by.")
    ] = 0.2,
    out: Annotated[Path | None, typer.Option(help="Folder of the search; searches/SCENARIO/METHOD by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search settings of a method or its recipe; every trial is judged on held-out training rows, never on test rows.

    A stopped search resumes with the same command; more `--trials` continue a finished one.
    """
    from crwn.cli.progress import RunBars
    from crwn.errors import StoppedError
    from crwn.experiments import make_config
    from crwn.experiments.config import parse_seeds, parse_settings
    from crwn.experiments.search import parse_ranges, search
    from crwn.report.tables import aligned
    from crwn.training.allocation import keep_freed_memory

    keep_freed_memory()
    ranges, fixed = parse_ranges(parse_settings(settings or []))
    length = {"tasks": tasks, "batches": batches, "epochs": epochs}
    config = make_config(scenario=scenario, method=method, size=size, settings=fixed, **length)
    folder = out or Path("searches") / config.scenario_name / config.label

    def show(trial: Trial) -> None:
        chosen = " ".join(f"{key}={value}" for key, value in trial.settings.items())
        note(f"trial {trial.number + 1} of {trials}: {chosen}, {trial.accuracy:.2f}%")

    with RunBars() as bars:
        try:
            found = search(
                config, ranges, folder, trials=trials, seeds=parse_seeds(seeds), share=share, progress=bars, show=show
            )
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; finished trials are saved in {folder}: the same command resumes") from None
    best = config.model_copy(update={"settings": {**fixed, **found[0].settings}})
    if as_json:
        listed = [{"settings": one.settings, "accuracy": one.accuracy} for one in found]
        typer.echo(json.dumps({"folder": str(folder), "trials": listed, "command": best.command}))
        return
    rows = [[*(one.settings[name] for name in ranges), f"{one.accuracy:.2f}"] for one in found[:10]]
    typer.echo(aligned([*ranges, "held-out accuracy %"], rows))
    typer.echo(f"\n{len(found)} trials in {folder}; the best on the test rows: {best.command}")
