"""The runs of the demo: the same tasks learned by NeuroModNet, FlyNet and fine-tuning, in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from crwn.data import ImageSet, load
from crwn.errors import ConfigError, DataError
from crwn.experiments import RunProgress, RunResult, make_config, run
from crwn.insight.collection import Collection, from_run
from crwn.learner import Learner

# Name, method, size, settings: together they take about a minute.
METHODS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("NeuroModNet", "neuromodnet", "2048", {"weights": "hadamard", "schedule": "cosine", "rate": "0.02"}),
    ("FlyNet", "flynet", "10d", {}),
    ("fine-tuning", "finetune", "256", {}),
)


@dataclass(frozen=True)
class Demo:
    """A finished demo: its folder, the result of each method, and NeuroModNet's model folder and contexts."""

    folder: Path
    data: str
    results: dict[str, RunResult]
    model: Path
    collection: Collection
    offline: str | None  # why MNIST is not available, if digits are used instead


def run_demo(out: Path, *, progress: RunProgress | None = None, data: str | None = None) -> Demo:
    """Run the demo in the folder `out`; runs that are finished there are not repeated."""
    image_set, offline = _data(data, progress or RunProgress())
    results = {}
    folders = {}
    with as_file(files("crwn.cli.demo") / f"{image_set.name}.toml") as scenario:
        for label, method, size, settings in METHODS:
            config = make_config(scenario=str(scenario), method=method, size=size, settings=settings, matrix=True)
            folders[label] = config.folder(out / "runs")
            results[label] = run(config, folders[label], progress=progress)
    collection = from_run(folders["NeuroModNet"])
    model = out / f"turned-{image_set.name}.crwn"
    with Learner.load(folders["NeuroModNet"]) as learner:
        learner.save(model)
    return Demo(out, image_set.name, results, model, collection, offline)


def _data(wanted: str | None, progress: RunProgress) -> tuple[ImageSet, str | None]:
    if wanted not in (None, "mnist", "digits"):
        raise ConfigError(f'the demo runs on mnist or digits, not on "{wanted}"')
    if wanted == "digits":
        return load("digits"), None
    try:
        return load("mnist", progress=progress.fetching), None
    except DataError as error:
        if wanted == "mnist":
            raise
        return load("digits"), str(error)
