"""`crwn run`: one method on one scenario, with one or several seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.completion import method_names, scenario_names
from crwn.cli.options import Address, AsJson, Batches, Engine, Epochs, Settings, Tasks, Threads, counted, terminal_width

if TYPE_CHECKING:
    from crwn.experiments import RunConfig, RunResult
    from crwn.training.loop import Callback

EPILOG = "Example: crwn run rotated-digits neuromodnet --tasks 8"


def command(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            autocompletion=scenario_names,
            help="rotated-mnist, permuted-mnist, split-cifar100, split-mini-imagenet, rotated-digits, "
            "permuted-digits, or the path of a TOML file.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Argument(
            metavar="METHOD",
            autocompletion=method_names,
            help="neuromodnet, flynet, backbone, supsup, batche, psp, stl, mtl, finetune, ewc, replay, ranpac, or a "
            "custom one.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="The paper's size: 256...4096, 10d...40d (flynet), 1d...6d (resnet). "
            "By default 1024 (neuromodnet), 10d (flynet), 1d (images), 256 (others)."
        ),
    ] = None,
    tasks: Tasks = None,
    batches: Batches = None,
    epochs: Epochs = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds; one run for each.")] = "0",
    settings: Settings = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Evaluate all tasks learned so far after every task.")
    ] = False,
    class_incremental: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Also evaluate with the task inferred from groups of N test rows."),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="task: the task of every test row is given. class: none is given, all classes of all tasks count. "
            "domain: none is given, tasks share their classes."
        ),
    ] = "task",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs (seed-0, ...); runs/SCENARIO/METHOD-SIZE by default.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    given_method: Annotated[
        str | None,
        typer.Option("--method", metavar="FILE.py:CLASS", help="METHOD as an option: also a class in a Python file."),
    ] = None,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Log to this project of Weights & Biases.")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard logs of every tenth step.")] = None,
    threads: Threads = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="RECORD",
            help="Instead: repeat the run recorded in this folder (.../seed-0), or its first --tasks, and compare.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the tasks of a scenario one after another with a method, and measure accuracy and forgetting.

    A run that was stopped or killed resumes with the same command and gives the same results; a finished one is not
    repeated. A run with more tasks starts from the finished run with fewer, where both have default folder names.

    The run folder of neuromodnet or flynet is also a model folder for `crwn tasks`, `predict`, `serve` and `atlas`.
    """
    from crwn.cli.progress import RunBars
    from crwn.errors import ConfigError, StoppedError
    from crwn.experiments import make_config, run, summary, with_size
    from crwn.experiments.config import parse_seeds, parse_settings
    from crwn.training.allocation import keep_freed_memory

    keep_freed_memory()
    if verify is not None:
        if scenario is not None:
            raise ConfigError(f"--verify repeats a recorded run: leave out the scenario {scenario!r} and the method")
        typer.echo(_verified(verify, tasks, as_json=as_json))
        return
    if method is not None and given_method is not None:
        raise ConfigError(f"two methods are given, {method} and --method {given_method}: give one")
    method = method or given_method
    if scenario is None or method is None:
        raise typer.BadParameter("missing 'METHOD' or 'SCENARIO': give both, or --verify RECORD")
    length = {"tasks": tasks, "batches": batches, "epochs": epochs}
    measured = {"matrix": matrix, "class_incremental": class_incremental, "protocol": protocol}
    workers = {"engine": engine, "address": address, "threads": threads}
    chosen = parse_settings(settings or [])
    config = make_config(scenario=scenario, method=method, size=size, settings=chosen, **length, **measured, **workers)
    every_seed = parse_seeds(seeds)
    results: list[RunResult] = []
    folders: list[Path] = []
    with RunBars() as bars:
        try:
            config = with_size(config, bars)
            for seed in every_seed:
                one = config.model_copy(update={"seed": seed})
                folder = one.folder(Path("runs")) if out is None else out / f"seed-{seed}"
                folders.append(folder)
                with _callbacks(one, tensorboard, wandb) as callbacks:
                    results.append(run(one, folder, progress=bars, callbacks=callbacks))
                    for tracker in callbacks:
                        if hasattr(tracker, "result"):
                            tracker.result(*_outcome(results[-1]))
        except KeyboardInterrupt:
            where = f" in {folders[-1]}" if folders else ""
            raise StoppedError(f"stopped; finished tasks are saved{where}: the same command resumes") from None
    whole = summary(results, folders)
    typer.echo(json.dumps(whole) if as_json else _table(whole, results))


def _verified(record: Path, tasks: int | None, *, as_json: bool) -> str:
    """Repeat a recorded run and return the comparison, as text or as JSON."""
    from dataclasses import asdict

    from crwn.cli.progress import RunBars
    from crwn.experiments.verify import verify

    with RunBars() as bars:
        found = verify(record, tasks=tasks, progress=bars)
    if as_json:
        return json.dumps({"record": str(record), **asdict(found)})
    noise = "" if found.noise is None else f", standard error of rounding {found.noise:.3f}"
    lines = [
        f"{found.outcome}: {record}, {counted(found.tasks, 'task')}, "
        f"recorded {found.recorded:.4f}%, repeated {found.repeated:.4f}% (difference {found.difference:+.4f}{noise})"
    ]
    if found.outcome != "equal" and found.environment:
        lines.append(f"environments differ: {'; '.join(found.environment)}")
    return "\n".join(lines)


@contextmanager
def _callbacks(config: RunConfig, tensorboard: Path | None, wandb: str | None) -> Iterator[list[Callback]]:
    """The loggers that options ask for, closed at the end of the run."""
    with ExitStack() as stack:
        found: list[Callback] = []
        if tensorboard is not None:
            from crwn.integrations.tensorboard import TensorBoard

            found.append(stack.enter_context(TensorBoard(tensorboard / f"seed-{config.seed}")))
        if wandb is not None:
            from crwn.integrations.wandb import WeightsAndBiases

            name = f"{config.scenario_name} {config.label} seed {config.seed}"
            found.append(stack.enter_context(WeightsAndBiases(wandb, name=name, config=config.identity())))
        yield found


def _outcome(result: RunResult) -> tuple[dict[str, float], dict[str, Any]]:
    """The accuracy of every task, and the numbers of a finished run that trackers show."""
    facts = {"average_accuracy", "forgetting", "params_per_task", "bytes_per_task", "seconds_per_task"}
    return dict(zip(result.tasks, result.accuracy, strict=True)), result.model_dump(include=facts)


def _table(whole: dict[str, Any], results: list[RunResult]) -> str:
    from crwn.report.tables import aligned, fitted, number

    names, several = results[0].tasks, len(results) > 1
    over = f" (mean of {len(results)} seeds)" if several else ""
    head = ["task", f"after learning{over}", f"at the end{over}"]
    rows = [
        [
            name,
            *(_mean([getattr(result, measure)[i] for result in results]) for measure in ("accuracy_after", "accuracy")),
        ]
        for i, name in enumerate(names)
    ]
    spread = f" ± {whole['accuracy_std']:.2f} over {len(results)} seeds" if len(results) > 1 else ""
    forgot = "all tasks are learned jointly" if whole["forgetting"] is None else f"{whole['forgetting']:.2f} points"
    facts = [
        ["average accuracy", f"{whole['average_accuracy']:.2f}%{spread}"],
        ["forgetting", forgot],
        ["parameters per task", number(whole["params_per_task"])],
        ["with shared parameters divided by the tasks", number(whole["params_per_task_amortised"])],
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
    if without := whole.get("without_task"):
        task = f", task {without['task_accuracy']:.2f}%" if "task_accuracy" in without else ""
        facts.append([f"no task given ({without['protocol']})", f"{without['accuracy']:.2f}%{task}"])
    facts.append(["run folder", ", ".join(whole["run_dirs"])])
    title = f"{whole['method']} {whole['size']} on {whole['scenario']}, {counted(whole['tasks'], 'task')}"
    return "\n".join([title, "", fitted(head, rows, terminal_width()), "", aligned(["", "all tasks"], facts)])


def _mean(values: list[float]) -> str:
    """The mean over seeds with its deviation, or the value of one seed."""
    from crwn.experiments.metrics import average, deviation

    return f"{average(values):.2f}" + (f" ± {deviation(values):.2f}" if len(values) > 1 else "")
