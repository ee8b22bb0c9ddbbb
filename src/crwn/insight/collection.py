"""The contexts to look at and what is known about their tasks, from a model folder, a run, or a learner."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crwn.errors import ConfigError, DataError
from crwn.layers import context_tensors

if TYPE_CHECKING:
    from crwn.learner import Learner

Factors = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Collection:
    """What tasks of one model learned, and what is known about them.

    Args:
        source: where they come from, for titles.
        names: of the tasks.
        contexts: the tensors of each task by context name.
        start: the context they all started from; None where it is not known.
        factors: what makes each task differ.
        classes: label values of each task.
        model: the frozen network; None where it is not known.
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
    """The tasks of a model folder (`model.json`) or of a run (`config.json`, or a folder of one run's seeds)."""
    folder = Path(place)
    if (folder / "model.json").exists():
        from crwn.learner import Learner

        with Learner.load(folder) as learner:
            return from_learner(learner, source=folder.name)
    if (folder / "config.json").exists():
        return from_run(folder)
    seeds = sorted(folder.glob("seed-*/config.json"))
    if seeds:
        return from_run(seeds[0].parent)
    what = "there is no such folder" if not folder.exists() else "it has neither model.json nor config.json"
    raise ConfigError(f"{folder} is neither a model nor a run: {what}; give a model folder or a run folder")


def from_learner(learner: Learner, *, source: str = "learner") -> Collection:
    """All tasks of a learner; what is known of them is what `info["factors"]` or their names say."""
    names = learner.tasks
    contexts = learner.bank.get_many(names)
    told: list[Factors] = [dict(context.info.get("factors", {})) for context in contexts]
    return Collection(
        source,
        names,
        [context.tensors for context in contexts],
        {name: tensor.clone() for name, tensor in context_tensors(learner.model).items()},
        told if all(told) else factors_from_names(names),
        [context.classes for context in contexts],
        learner.model,
    )


def from_run(folder: Path) -> Collection:
    """All tasks of a run of a method that keeps something for every task."""
    from crwn.experiments import RunFolder
    from crwn.experiments.reopened import reopen

    bench, files = reopen(folder), RunFolder(folder)
    config, lines = bench.config, files.lines()
    tasks = list(bench.scenario)[: len(lines)]
    states = [
        {
            name: tensor
            for name, tensor in files.read_state(f"task-{i:03d}", line.get("state")).items()
            if not name.startswith("shared/")
        }
        for i, line in enumerate(lines)
    ]
    if not states or not states[0]:
        raise DataError(
            f"the run in {folder} keeps nothing for each task alone ({config.method}, {len(lines)} tasks): "
            "give a run of neuromodnet or flynet"
        )
    model = getattr(bench.method, "model", None)
    if isinstance(model, nn.Module):
        # Files keep tensors in no order of meaning; the model's goes from input to output.
        order = [name for name in context_tensors(model) if name in states[0]]
        states = [{name: state[name] for name in [*order, *sorted(state.keys() - set(order))]} for state in states]
    return Collection(
        f"{bench.scenario.name}, {config.method} {config.size}",
        [task.name for task in tasks],
        states,
        dict(context_tensors(model)) if isinstance(model, nn.Module) else None,
        [task.factors for task in tasks],
        [task.classes for task in tasks],
        model,
    )


def factors_from_names(names: Sequence[str]) -> list[Factors]:
    """A number at the end of every name, where all begin alike: an angle when the beginning says so.

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
