"""Contexts to analyse and the known factors of their tasks, from a model folder, a run, or a learner."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crwn.contexts.bank import get_readable
from crwn.errors import ConfigError, DataError
from crwn.layers import context_tensors

if TYPE_CHECKING:
    from crwn.learner import Learner

Factors = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Collection:
    """Contexts of the tasks of one model, with the known factors of the tasks.

    Args:
        source: where they come from, for titles.
        names: names of the tasks.
        contexts: the tensors of each task by context name.
        start: the context they all started from; None if it is not known.
        factors: in what each task differs from the others (an angle, a number).
        classes: label values of each task.
        model: the frozen network; None if it is not known.
    """

    source: str
    names: list[str]
    contexts: list[dict[str, Tensor]]
    start: dict[str, Tensor] | None = None
    factors: list[Factors] = field(default_factory=list)
    classes: list[tuple[Hashable, ...]] = field(default_factory=list)
    model: nn.Module | None = None

    def __len__(self) -> int:
        return len(self.names)

    def at_most(self, count: int) -> Collection:
        """These tasks, or `count` of them spread evenly over their order."""
        if len(self) <= count:
            return self
        kept = [math.floor(i * len(self) / count) for i in range(count)]
        return Collection(
            self.source,
            [self.names[i] for i in kept],
            [self.contexts[i] for i in kept],
            self.start,
            [self.factors[i] for i in kept],
            [self.classes[i] for i in kept],
            self.model,
        )


def collect(place: str | Path) -> Collection:
    """The tasks of a model folder (`model.json`) or of a run (`config.json`); of several seeds the first is taken."""
    from crwn.learner.folder import find_folder

    folder = find_folder(place, first=True)
    if (folder / "config.json").exists():
        return from_run(folder)
    if (folder / "model.json").exists():
        return _from_folder(folder, folder.name)
    what = "there is no such folder" if not folder.exists() else "it has neither model.json nor config.json"
    raise ConfigError(f"{folder} is neither a model nor a run: {what}; give a model folder or a run folder")


def from_learner(learner: Learner, *, source: str = "learner", names: Sequence[str] | None = None) -> Collection:
    """All tasks of a learner, or these, with the factors in their contexts, or else those in their names."""
    names = list(learner.tasks if names is None else names)
    contexts, problems = get_readable(learner.bank, names)
    for problem in problems:
        warnings.warn(f"left out: {problem}", stacklevel=2)
    names = [context.name for context in contexts]
    stored: list[Factors] = [context.info.factors for context in contexts]
    start = {name: tensor.clone() for name, tensor in context_tensors(learner.model).items()}
    return Collection(
        source,
        names,
        [_in_model_order(context.tensors, start) for context in contexts],
        start,
        stored if all(stored) else factors_from_names(names),
        [context.classes for context in contexts],
        learner.model,
    )


def _from_folder(folder: Path, source: str, names: Sequence[str] | None = None) -> Collection:
    from crwn.learner import Learner

    with Learner.load(folder) as learner:
        return from_learner(learner, source=source, names=names)


def from_run(folder: Path) -> Collection:
    """All tasks of a run: its contexts, or the state that another method stores for every task."""
    from crwn.experiments import RunFolder
    from crwn.experiments.reopen import reopen

    files = RunFolder(folder)
    record, lines = files.record(), files.lines()
    if record is not None and lines and all("context" in line for line in lines):
        run = record["run"]
        names = [line["name"] for line in lines]
        return _from_folder(folder, f"{run['scenario']}, {run['method']} {run['size']}", names)
    experiment = reopen(folder)
    config, tasks = experiment.config, list(experiment.scenario)[: len(lines)]
    found = files.states.task_states(lines, [task.name for task in tasks])
    states = [{key: value for key, value in found[task.name].items() if "shared/" not in key} for task in tasks]
    if not states or not states[0]:
        raise DataError(
            f"the run in {folder} has no state for each task ({config.method}, {len(lines)} tasks): "
            "give a run of neuromodnet or flynet"
        )
    model = getattr(experiment.method, "model", None)
    start = dict(context_tensors(model)) if isinstance(model, nn.Module) else None
    return Collection(
        f"{experiment.scenario.name}, {config.method} {config.size}",
        [task.name for task in tasks],
        [_in_model_order(state, start or {}) for state in states],
        start,
        [task.factors for task in tasks],
        [task.classes for task in tasks],
        model,
    )


def _in_model_order(tensors: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors in the order of the model's layers; files store them in another order."""
    order = [name for name in model if name in tensors]
    return {name: tensors[name] for name in [*order, *sorted(tensors.keys() - set(order))]}


def factors_from_names(names: Sequence[str]) -> list[Factors]:
    """The number at the end of every name, if all names begin alike: an angle for beginnings such as "rotate".

    >>> factors_from_names(["rotate-010", "rotate-020"])
    [{'angle': 10.0}, {'angle': 20.0}]
    >>> factors_from_names(["left", "right"])
    [{}, {}]
    """
    found: list[Any] = [re.fullmatch(r"(.*?)[-_ ]?(\d+(?:\.\d+)?)", name) for name in names]
    if not all(found) or len({match[1] for match in found}) != 1:
        return [{} for _ in names]
    kind = "angle" if re.search(r"rotat|angle|turn|degree", found[0][1], re.IGNORECASE) else "number"
    return [{kind: float(match[2])} for match in found]
