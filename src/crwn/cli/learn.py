"""`crwn learn`: learn a task from a data file, in a model folder that is made if it does not exist."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.backbone import Backbone, Depth, backbone_network, check_depth, image_backbone, learn_head_first
from crwn.cli.learned import ClosedForm, HowToLearn, is_table, learned_facts, learned_text, learned_warnings
from crwn.cli.module import build_module
from crwn.cli.options import AsJson, DataFile, ModelFolder, Module, TaskName, counted, note
from crwn.cli.rows import AsText, FileToLearn, Ignore, ImageSize, Label
from crwn.errors import ConfigError, StoppedError

if TYPE_CHECKING:
    from torch import nn

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
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches of 128 rows; by default 1,000, or as fits a table.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, instead of batches.")] = None,
    recipe: Annotated[
        RecipeName, typer.Option(help="Optimizer, learning rate and schedule: best, or as in the paper.")
    ] = RecipeName.best,
    validation: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Share of the rows to hold out, for early stopping and the accuracy; 0 for none. By default 0.2 of a "
            "table and 0.1 of other rows, up to 50,000 of them, which are all learned in the end.",
        ),
    ] = None,
    regression: Annotated[bool, typer.Option("--regression", help="Labels are numbers to predict.")] = False,
    multilabel: Annotated[
        bool,
        typer.Option("--multilabel", help="A row has any number of labels: `red|round` in the column, 0 and 1 in y."),
    ] = False,
    class_weight: Annotated[
        str | None, typer.Option(help="`balanced` lets all classes count the same, however rare.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue training from the task's context.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Learn an existing task again from the start.")] = False,
    start: Annotated[
        str | None,
        typer.Option(help="Start from the context of this task; `nearest` is the task that fits the rows best."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="In closed form, in one pass over the rows; without batches or recipe.")
    ] = False,
    newton: Annotated[
        int | None, typer.Option(min=1, max=100, help="With --exact: steps that lower cross-entropy afterwards.")
    ] = None,
    keep_statistics: Annotated[
        bool,
        typer.Option("--keep-statistics", help="With --exact: keep the sums, so that --resume can add rows later."),
    ] = False,
    kind: Annotated[
        Kind | None, typer.Option("--model", help="Network of a new folder; neuromodnet by default.")
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(
            min=1, help="Width of a new network's hidden layers; 4096, 1024 for tables, 10 x inputs for flynet."
        ),
    ] = None,
    learned: Annotated[
        str | None,
        typer.Option(
            "--size", help="Parameters that a task learns, for images and --model flynet: 5k, 10k, 20k or 30k."
        ),
    ] = None,
    weights: Annotated[
        WeightKind | None, typer.Option(help="Frozen weights of a new network; hadamard, for tables gaussian.")
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
    backbone: Backbone = None,
    depth: Depth = None,
    module: Module = None,
    as_json: AsJson = False,
) -> None:
    """Learn a task from a data file; a model folder that does not exist is made, sized for the data."""
    from crwn.contexts import check_free
    from crwn.training.allocation import use_one_thread_if_small

    if learned is not None and kind is not Kind.flynet and not (model / "model.json").exists():
        raise ConfigError(f"--size {learned} is for images and --model flynet: give that too, or --hidden instead")
    wanted = {"model": kind, "hidden": hidden, "size": learned, "weights": weights, "seed": seed, "classes": classes}
    wanted |= {"backbone": backbone, "depth": depth}
    wanted = {option: value for option, value in wanted.items() if value is not None}
    new = not (model / "model.json").exists() and not resume
    check_depth(depth, backbone=backbone, new=new)
    taken = image_backbone(backbone, wanted, image_size) if new and backbone is not None else None
    given = FileToLearn(
        data,
        label=label,
        ignore=ignore or (),
        text=text or (),
        several=multilabel,
        size=None if backbone is not None else image_size,
    )
    custom = build_module(module)
    if custom is not None and wanted:
        raise ConfigError(f"--module makes the network: leave out --{next(iter(wanted))}")
    how = HowToLearn(regression, multilabel, class_weight, validation)
    length: dict[str, Any] = {"recipe": recipe.value, "batches": batches, "epochs": epochs}
    closed = ClosedForm(exact, newton, keep_statistics)
    closed.check(batches=batches, epochs=epochs)
    if new:
        if start not in (None, "nearest"):
            raise ConfigError(f"--start {start}: {model} has no tasks yet to start from")
        x, y, about = given.rows(shape=None if taken is None else (3, taken.size, taken.size))
        made = custom if taken is None else backbone_network(taken, tuple(x[0].shape), len(set(y)), wanted)
        _make(model, task, x, y, how.options(x, about), wanted, about, length, made)
    with _open(model, wanted, custom, image_size=image_size) as learner:
        use_one_thread_if_small(learner.model)
        if not (resume or replace):
            check_free([task], learner.bank, where=model, hint="--resume continues it, --replace starts over")
        x, y, about = given.rows(learner, task if resume else None)
        closed = closed.for_model(learner.kind, how, recipe.value, batches=batches, epochs=epochs)
        try:
            options = closed.options(length, how.options(x, about), validation)
            if learner.kind == "deep-backbone" and not (closed.exact or resume or start or regression or multilabel):
                options["refit"] = False
                learn_head_first(learner, task, x, y, options, replace=replace, info=about)
                resume, replace = True, False
            context = learner.learn(task, x, y, resume=resume, replace=replace, start=start, info=about, **options)
        except KeyboardInterrupt:
            raise StoppedError(
                f'stopped while learning "{task}"; saved before: {counted(len(learner.bank), "task")}'
            ) from None
        facts = learned_facts(model, context, learner.score(x, y, task=task), rows=len(x), tasks=len(learner.bank))
    for line in given.notes():
        note(f"note: {line}")
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        typer.echo(learned_text(facts, context))
    for warning in learned_warnings(context):
        typer.echo(f"warning: {warning}", err=True)


def _make(
    folder: Path,
    task: str,
    x: Any,
    y: Any,
    options: dict[str, Any],
    wanted: dict[str, Any],
    about: Mapping[str, Any],
    length: dict[str, Any],
    custom: nn.Module | None,
) -> None:
    """Make a model folder sized for the data, after checking that the data can be learned with it."""
    from crwn.learner import Learner
    from crwn.learner.fit import choose_recipe
    from crwn.learner.targets import make_targets

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists but is not a model folder: choose another path")
    outputs = len(make_targets(task, y, options["kind"] or "classification").labels)
    network = custom or _network(
        tuple(x[0].shape), outputs, wanted, rows=len(x), table=is_table(x, about), best=length["recipe"] == "best"
    )
    choose_recipe(network, **length)
    Learner(network).prepare(task, x, y, info=about, **options)
    Learner(network, bank=folder).close()


def _open(folder: Path, wanted: dict[str, Any], custom: nn.Module | None, *, image_size: str | None) -> Learner:
    """Open the learner of an existing folder; raise ConfigError for options that contradict how it was made.

    Args:
        image_size: tasks may differ in it, but not on a backbone.
    """
    from crwn.learner import Learner
    from crwn.learner.folder import read_description
    from crwn.models.image_flynet import SIZES, filters_for

    record = read_description(folder)
    config = record.get("config")
    made = {**(config if isinstance(config, dict) else {}), "model": str(record.get("kind")).removeprefix("image-")}
    if "backbone" in made:
        made |= {"image-size": str(made.get("size"))}
        made |= {"hidden": made.get("units"), "size": None, "weights": None, "depth": made.get("depth", "head")}
        wanted = wanted if image_size is None else wanted | {"image-size": image_size}
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
            how = f"without --{option}" if there is None else f"with --{option} {there}"
            raise ConfigError(f"{folder} was made {how}, not {value}: {hint}")
    return Learner.load(folder, model=custom)


def _network(shape: tuple[int, ...], found: int, wanted: dict[str, Any], *, rows: int, table: bool, best: bool) -> Any:
    """A network for rows of this shape; flynet has frozen filters where they are images and no width is given.

    Args:
        best: the structure of `recipe="best"`, as in `crwn run --set recipe=best`; the paper's otherwise.
    """
    from crwn.learner.tables import table_network
    from crwn.models import FlyNet, ImageFlyNet, NeuroModNet, best_structure

    classes, seed, features = wanted.get("classes", max(10, found)), wanted.get("seed", 0), math.prod(shape)
    images = len(shape) > 1 and "hidden" not in wanted
    if "size" in wanted and not images:
        raise ConfigError(f"--size {wanted['size']} is for images: give --hidden, the number of hidden nodes, instead")
    if wanted.get("model") == Kind.flynet:
        if "weights" in wanted:
            raise ConfigError("--weights is for neuromodnet: flynet's encoder is sparse and its decoder gaussian")
        if images:
            return ImageFlyNet(shape if len(shape) == 3 else (1, *shape), classes, seed=seed, size=wanted.get("size"))
        hidden = wanted.get("hidden", max(256, 10 * features))
        return FlyNet(features, hidden, classes, seed=seed, constant=True if table else None)
    if table and wanted.get("weights") != WeightKind.patches:
        given: dict[str, Any] = {"hidden": (wanted["hidden"],)} if "hidden" in wanted else {}
        if "weights" in wanted:
            given["weights"] = str(wanted["weights"])
        return table_network(features, classes, rows=rows, seed=seed, **given)
    width = wanted.get("hidden", 4096)
    structure: dict[str, Any] = {**best_structure(features)} if best else {"weights": "gaussian", "norm": "none"}
    structure |= {"weights": str(wanted["weights"])} if "weights" in wanted else {}
    return NeuroModNet(features, (width, width), classes, seed=seed, **structure)
