"""Learn the same tasks with NeuroModNet, FlyNet and plain fine-tuning, and keep what came of it in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from crwn.bank import open_bank
from crwn.context import Context, now
from crwn.data import ImageSet, load
from crwn.errors import ConfigError, DataError
from crwn.experiments import RunResult, Watcher, make_config, run
from crwn.insight.collection import Collection, from_run
from crwn.model_folder import BANK, read_description, write_description
from crwn.models import fingerprint

# Name, method, size, settings: small enough for about a minute together.
METHODS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("NeuroModNet", "neuromodnet", "2048", {"weights": "hadamard", "schedule": "cosine", "rate": "0.02"}),
    ("FlyNet", "flynet", "10d", {}),
    ("fine-tuning", "finetune", "256", {}),
)


@dataclass(frozen=True)
class Story:
    """What the demo did: where it is kept, and the result of each method."""

    folder: Path
    data: str
    results: dict[str, RunResult]
    model: Path
    collection: Collection
    offline: str | None  # why MNIST could not be had, when digits stand in for it


def tell(out: Path, *, watcher: Watcher | None = None, data: str | None = None) -> Story:
    """Run the demo into `out`; what is finished there already is not done again."""
    image_set, offline = _data(data, watcher or Watcher())
    results = {}
    folders = {}
    with as_file(files("crwn.demo") / f"{image_set.name}.toml") as scenario:
        for label, method, size, settings in METHODS:
            config = make_config(scenario=str(scenario), method=method, size=size, settings=settings, matrix=True)
            folders[label] = config.folder(out / "runs")
            results[label] = run(config, folders[label], watcher=watcher)
    collection = from_run(folders["NeuroModNet"])
    model = _keep(out / f"turned-{image_set.name}.crwn", collection, image_set, results["NeuroModNet"])
    return Story(out, image_set.name, results, model, collection, offline)


def _data(wanted: str | None, watcher: Watcher) -> tuple[ImageSet, str | None]:
    if wanted not in (None, "mnist", "digits"):
        raise ConfigError(f'the demo runs on mnist or digits, not on "{wanted}"')
    if wanted == "digits":
        return load("digits"), None
    try:
        return load("mnist", progress=watcher.fetching), None
    except DataError as error:
        if wanted == "mnist":
            raise
        return load("digits"), str(error)


def _keep(folder: Path, collection: Collection, image_set: ImageSet, result: RunResult) -> Path:
    """A model folder of the run's contexts that takes raw images: their scaling goes with each context."""
    model = collection.model
    assert model is not None
    mean, std = image_set.mean[0] * image_set.unit, image_set.std[0] * image_set.unit
    write_description(folder, model)
    name = fingerprint(model)
    contexts = [
        Context(
            task,
            dict(tensors),
            tuple(range(10)),
            name,
            now(),
            {"scaling": [mean, std], "factors": dict(factors), "accuracy": round(accuracy, 2)},
        )
        for task, tensors, factors, accuracy in zip(
            collection.names, collection.contexts, collection.factors, result.accuracy, strict=True
        )
    ]
    with open_bank(folder / BANK, model=read_description(folder)["fingerprint"]) as bank:
        bank.put_many(contexts, replace=True)
    return folder
