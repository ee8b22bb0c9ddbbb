"""`crwn compare`: several methods on one scenario with the same seeds, in one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from crwn.cli.completion import method_names
from crwn.cli.options import (
    Address,
    AsJson,
    Batches,
    Engine,
    Epochs,
    Scenario,
    Settings,
    Tasks,
    Threads,
    counted,
    terminal_width,
)

EPILOG = "Example: crwn compare rotated-digits neuromodnet finetune ewc --seeds 0,1,2 --tex table.tex"


def command(
    scenario: Scenario,
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            autocompletion=method_names,
            help="Methods, as for `crwn run`, with a size where wanted: flynet@20d. All are compared with the first.",
        ),
    ],
    tasks: Tasks = None,
    batches: Batches = None,
    epochs: Epochs = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds, the same for all methods.")] = "0,1,2",
    settings: Settings = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs; finished ones are read.")] = Path("runs"),
    tex: Annotated[Path | None, typer.Option(help="Also write the table as LaTeX.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write it as CSV, with every seed's accuracy.")] = None,
    markdown: Annotated[Path | None, typer.Option("--md", help="Also write it as Markdown.")] = None,
    engine: Engine = "local",
    address: Address = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods: mean accuracy and deviation over the seeds, differences from the first method, paired t-test.

    Runs that were done before are read, stopped ones resume with the same command.
    """
    from crwn._utils import write_whole
    from crwn.cli.progress import RunBars
    from crwn.errors import StoppedError
    from crwn.experiments import make_config
    from crwn.experiments.compare import compare, parse_method
    from crwn.experiments.config import parse_seeds, parse_settings
    from crwn.report.comparison import comparison_csv, comparison_facts, comparison_table
    from crwn.training.allocation import keep_freed_memory

    keep_freed_memory()
    workers = {"engine": engine, "address": address, "threads": threads}
    length = {"tasks": tasks, "batches": batches, "epochs": epochs, "settings": parse_settings(settings or [])}
    named = [parse_method(text) for text in methods]
    configs = [make_config(scenario=scenario, method=name, size=size, **length, **workers) for name, size in named]
    with RunBars() as bars:
        try:
            found = compare(configs, parse_seeds(seeds), out, progress=bars)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; finished tasks are saved in {out}: the same command resumes") from None
    table = comparison_table(found)
    for path, text in ((tex, table.latex()), (markdown, table.markdown() + "\n"), (csv, comparison_csv(found))):
        if path is not None:
            write_whole(path, text.encode())
    if as_json:
        typer.echo(json.dumps({"scenario": scenario, "methods": comparison_facts(found)}))
        return
    count = len(found[0].results[0].tasks)
    typer.echo(f"{found[0].config.scenario_name}, {counted(count, 'task')}, seeds {seeds}\n")
    typer.echo(table.markdown(terminal_width()))
