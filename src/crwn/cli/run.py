"""`crwn run`: one method on one scenario, with one or several seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from crwn.experiments import RunResult
    from crwn.training import Callback

EPILOG = "Example: crwn run rotated-digits neuromodnet --tasks 8"


def command(
    scenario: Annotated[
        str,
        typer.Argument(
            help="rotated-mnist, permuted-mnist, split-cifar100, split-mini-imagenet, rotated-digits, "
            "permuted-digits, or the path of a TOML file."
        ),
    ],
    method: Annotated[
        str,
        typer.Argument(help="neuromodnet, flynet, supsup, batche, psp, stl, mtl, finetune, ewc, replay, or your own."),
    ],
    size: Annotated[
        str | None,
        typer.Option(
            help="The paper's size: 256...4096, 10d...40d (flynet), 1d...6d (resnet). "
            "By default 1024 (neuromodnet), 10d (flynet), 1d (images), 256 (others)."
        ),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="How many tasks; by default all of the scenario's.")] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches per task; by default the scenario's (the paper's 1,000).")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs per task, instead of batches.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds with commas between; a run for each.")] = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the method or of its recipe; repeatable."),
    ] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Evaluate all tasks so far after every task.")] = False,
    class_incremental: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Also infer the task at the end, from groups of N rows.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs (seed-0, ...); runs/SCENARIO/METHOD-SIZE by default.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where independent tasks are learned: local, processes (one for each core) or ray.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster, like host:6379; by default one is started here.")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write every tenth step for TensorBoard here.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to use; by default all cores.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Teach the tasks of a scenario to a method and measure what it knows afterwards.

    A run that was stopped, even killed, goes on with the same command and ends with the same numbers; a finished one
    is not done again. More --tasks go on from the same run with fewer, where both are in folders with usual names.
    """
    from crwn.allocation import keep_freed_memory
    from crwn.cli.watching import RunBars
    from crwn.errors import CRWNError
    from crwn.experiments import make_config, run, summary, with_size
    from crwn.experiments.config import parse_seeds, parse_settings

    keep_freed_memory()
    chosen = parse_settings(settings or [])
    config = make_config(
        scenario=scenario,
        method=method,
        size=size,
        tasks=tasks,
        batches=batches,
        epochs=epochs,
        settings=chosen,
        matrix=matrix,
        class_incremental=class_incremental,
        engine=engine,
        address=address,
        threads=threads,
    )
    numbers = parse_seeds(seeds)
    results: list[RunResult] = []
    folders: list[Path] = []
    with RunBars() as bars:
        try:
            config = with_size(config, bars)
            for seed in numbers:
                one = config.model_copy(update={"seed": seed})
                folder = one.folder(Path("runs")) if out is None else out / f"seed-{seed}"
                folders.append(folder)
                results.append(run(one, folder, watcher=bars, callbacks=_callbacks(tensorboard, seed)))
        except KeyboardInterrupt:
            where = f" in {folders[-1]}" if folders else ""
            raise CRWNError(f"stopped; everything learned so far is kept{where}: the same command goes on") from None
    whole = summary(results, folders)
    typer.echo(json.dumps(whole) if as_json else _table(whole, results))


def _callbacks(tensorboard: Path | None, seed: int) -> list[Callback]:
    if tensorboard is None:
        return []
    from crwn.integrations.tensorboard import TensorBoard

    return [TensorBoard(tensorboard / f"seed-{seed}")]


def _table(whole: dict[str, Any], results: list[RunResult]) -> str:
    from crwn.report.tables import aligned, number

    names = results[0].tasks
    head = ["task"]
    for result in results:
        head += [f"after learning (seed {result.seed})", f"at the end (seed {result.seed})"]
    rows = [
        [name, *(f"{value:.2f}" for result in results for value in (result.accuracy_after[i], result.accuracy[i]))]
        for i, name in enumerate(names)
    ]
    spread = f" ± {whole['accuracy_std']:.2f} over {len(results)} seeds" if len(results) > 1 else ""
    forgot = "all tasks are learned at once" if whole["forgetting"] is None else f"{whole['forgetting']:.2f} points"
    facts = [
        ["average accuracy", f"{whole['average_accuracy']:.2f}%{spread}"],
        ["forgetting", forgot],
        ["numbers per task", number(whole["params_per_task"])],
        ["with the shared ones spread over the tasks", number(whole["params_per_task_amortised"])],
        ["bytes per task", number(whole["bytes_per_task"])],
        ["seconds per task", f"{whole['seconds_per_task']:.2f}"],
    ]
    facts += [
        [name.replace("_", " "), f"{whole[name]:.2f} points"]
        for name in ("backward_transfer", "forward_transfer")
        if whole.get(name) is not None
    ]
    if inferred := whole.get("class_incremental"):
        facts.append(
            [
                f"task inferred from {inferred['group']:.0f} rows",
                f"task {inferred['task_accuracy']:.2f}%, task and class {inferred['accuracy']:.2f}%",
            ]
        )
    facts.append(["kept in", ", ".join(whole["run_dirs"])])
    title = f"{whole['method']} {whole['size']} on {whole['scenario']}, {whole['tasks']} tasks"
    return "\n".join([title, "", aligned(head, rows), "", aligned(["", "all tasks"], facts)])
