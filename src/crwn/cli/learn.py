"""`crwn learn`: learn a task from a data file, in a model folder that is made if it does not exist."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.options import AsJson, DataFile, ModelFolder, TaskName, counted
from crwn.cli.rows import AsText, FileToLearn, Ignore, ImageSize, Label
from crwn.errors import ConfigError, CRWNError

if TYPE_CHECKING:
    from crwn.learner import Learner

EPILOG = "Example: crwn learn digits.crwn upright upright.npz --batches 500"


class Kind(StrEnum):
    """Networks that can be made to fit a data file."""

    neuromodnet = "neuromodnet"
    flynet = "flynet"


class WeightKind(StrEnum):
    """Kinds of frozen weights."""

    hadamard = "hadamard"
    gaussian = "gaussian"
    patches = "patches"


class RecipeName(StrEnum):
    """Named recipes."""

    best = "best"
    paper = "paper"


def command(
    model: ModelFolder,
    task: TaskName,
    data: DataFile,
    batches: Annotated[int | None, typer.Option(min=1, help="Batches of 128 rows; 1,000 by default.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, instead of batches.")] = None,
    recipe: Annotated[
        RecipeName, typer.Option(help="Optimizer, learning rate and schedule: best, or as in the paper.")
    ] = RecipeName.best,
    validation: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Share of the rows to hold out, for early stopping and the accuracy."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue training from the task's context.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Learn an existing task again from the start.")] = False,
    start: Annotated[
        str | None,
        typer.Option(help="Start from the context of this task; `nearest` is the task that fits the rows best."),
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option("--model", help="Network of a new folder; neuromodnet by default.")
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(min=1, help="Width of a new network's hidden layers; by default 4096, or 10 x inputs for flynet."),
    ] = None,
    learned: Annotated[
        str | None,
        typer.Option(
            "--size", help="Parameters that a task learns, for images and --model flynet: 5k, 10k, 20k or 30k."
        ),
    ] = None,
    weights: Annotated[
        WeightKind | None, typer.Option(help="Frozen weights of a new network; hadamard by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of a new network; 0 by default.")] = None,
    classes: Annotated[
        int | None,
        typer.Option(min=2, help="Outputs of a new network; by default the classes of the data, at least 10."),
    ] = None,
    label: Label = None,
    ignore: Ignore = None,
    text: AsText = None,
    image_size: ImageSize = None,
    as_json: AsJson = False,
) -> None:
    """Learn a task from a data file; a model folder that does not exist is made, sized for the data."""
    from crwn.contexts import check_free

    if learned is not None and kind is not Kind.flynet and not (model / "model.json").exists():
        raise ConfigError(f"--size {learned} is for images and --model flynet: give that too, or --hidden instead")
    given = FileToLearn(data, label=label, ignore=ignore or (), text=text or (), size=image_size)
    wanted = {"model": kind, "hidden": hidden, "size": learned, "weights": weights, "seed": seed, "classes": classes}
    wanted = {option: value for option, value in wanted.items() if value is not None}
    if not (model / "model.json").exists() and not resume:
        if start not in (None, "nearest"):
            raise ConfigError(f"--start {start}: {model} has no tasks yet to start from")
        x, y, _ = given.rows()
        _make(model, task, x, y, validation, wanted, recipe=recipe.value, batches=batches, epochs=epochs)
    with _open(model, wanted) as learner:
        if not (resume or replace):
            check_free([task], learner.bank, where=model, hint="--resume continues it, --replace starts over")
        x, y, facts_of_rows = given.rows(learner, task if resume else None)
        try:
            context = learner.learn(
                task,
                x,
                y,
                batches=batches,
                epochs=epochs,
                recipe=recipe.value,
                validation=validation,
                resume=resume,
                replace=replace,
                start=start,
                info=facts_of_rows,
            )
        except KeyboardInterrupt:
            raise CRWNError(
                f'stopped while learning "{task}"; saved before: {counted(len(learner.bank), "task")}'
            ) from None
        accuracy = learner.score(x, y, task=task)
        size = sum(tensor.nbytes for tensor in context.tensors.values())
        facts: dict[str, Any] = {
            "model": str(model),
            "task": task,
            "classes": list(context.classes),
            "rows": len(x),
            "batches": context.info.batches,
            "training_accuracy": round(100 * accuracy, 2),
            "accuracy": context.info.accuracy,
            "params_per_task": context.params,
            "params": context.params,  # name of earlier versions
            "bytes": size,
            "seconds": context.info.seconds,
            "tasks": len(learner.bank),
        }
    for note in given.notes():
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    reached = f"accuracy {facts['training_accuracy']:.1f}% on these training rows"
    if facts["accuracy"] is not None:
        reached = f"accuracy {facts['accuracy']:.1f}% on the rows held out"
    typer.echo(
        f'learned "{task}": {facts["rows"]:,} rows, {len(context.classes)} classes, {facts["batches"]:,} batches in '
        f"{facts['seconds']:.1f} s, {reached}\n"
        f"saved {context.params:,} parameters ({size:,} bytes) in {model}, "
        f"which has {counted(facts['tasks'], 'task')} now"
    )
    if validation is None:
        typer.echo("hint: --validation 0.1 holds rows out and reports the accuracy on them", err=True)


def _make(
    folder: Path, task: str, x: Any, y: Any, validation: float | None, wanted: dict[str, Any], **length: Any
) -> None:
    """Make a model folder sized for the data, after checking that the data can be learned with it."""
    from crwn.data.inputs import classes_of, plain_labels
    from crwn.learner import Learner
    from crwn.learner.fit import choose_recipe

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists but is not a model folder: choose another path")
    network = _network(tuple(x[0].shape), len(classes_of(plain_labels(y))), wanted)
    choose_recipe(network, **length)
    Learner(network).prepare(task, x, y, validation=validation)
    Learner(network, bank=folder).close()


def _open(folder: Path, wanted: dict[str, Any]) -> Learner:
    """Open the learner of an existing folder; raise ConfigError for options that contradict how it was made."""
    from crwn.learner import Learner
    from crwn.learner.folder import read_description
    from crwn.models.image_flynet import SIZES, filters_for

    record = read_description(folder)
    config = record.get("config")
    made = {**(config if isinstance(config, dict) else {}), "model": str(record.get("kind")).removeprefix("image-")}
    if "filters" in made:
        made["size"] = next((size for size in SIZES if filters_for(size, grid=made["grid"]) == made["filters"]), None)
    for option, value in wanted.items():
        there = made.get(option)
        if (set(there) != {value}) if isinstance(there, list) else (there != value):
            with Learner.load(folder) as learner:
                hint = (
                    "leave the option out, or choose another folder"
                    if len(learner.bank)
                    else "it has no tasks yet: delete the folder to make another"
                )
            raise ConfigError(f"{folder} was made with --{option} {there}, not {value}: {hint}")
    return Learner.load(folder)


def _network(shape: tuple[int, ...], found: int, wanted: dict[str, Any]) -> Any:
    """A network for rows of this shape; flynet has frozen filters where they are images and no width is given."""
    from crwn.models import FlyNet, ImageFlyNet, NeuroModNet

    classes, seed, features = wanted.get("classes", max(10, found)), wanted.get("seed", 0), math.prod(shape)
    images = len(shape) > 1 and "hidden" not in wanted
    if "size" in wanted and not images:
        raise ConfigError(f"--size {wanted['size']} is for images: give --hidden, the number of hidden nodes, instead")
    if wanted.get("model") == Kind.flynet:
        if "weights" in wanted:
            raise ConfigError("--weights is for neuromodnet: flynet's encoder is sparse and its decoder gaussian")
        if images:
            return ImageFlyNet(shape if len(shape) == 3 else (1, *shape), classes, seed=seed, size=wanted.get("size"))
        return FlyNet(features, wanted.get("hidden", 10 * features), classes, seed=seed)
    width = wanted.get("hidden", 4096)
    return NeuroModNet(
        features, (width, width), classes, seed=seed, weights=str(wanted.get("weights", WeightKind.hadamard))
    )
