"""A run's independent groups of tasks learned by workers, each of which builds the experiment from the config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from crwn.experiments.config import RunConfig
from crwn.experiments.experiment import Experiment, LearnedTask, build, checkpoint_identity, learn_group
from crwn.training.checkpoint import Checkpoint
from crwn.training.engines import make_engine
from crwn.training.loop import Callback
from crwn.training.recipe import Recipe


@dataclass(frozen=True)
class GroupWork:
    """A group of tasks to learn, the states they build on, and where a long one is saved on the way."""

    config: RunConfig
    recipe: Recipe
    group: list[int]
    earlier: dict[str, dict[str, Tensor]]
    checkpoint: Path | None

    def do(self, callbacks: Sequence[Callback] = ()) -> list[LearnedTask]:
        experiment = replace(_experiment(self.config.model_dump_json()), recipe=self.recipe)
        if self.earlier:
            experiment.method.restore(dict(self.earlier), {})
        checkpoint = None
        if self.checkpoint is not None:
            names = [experiment.scenario[i].name for i in self.group]
            checkpoint = Checkpoint(self.checkpoint, checkpoint_identity(self.config, experiment.recipe, names))
        return learn_group(experiment, self.group, callbacks=callbacks, checkpoint=checkpoint)


def learn_on_workers(
    experiment: Experiment, groups: Sequence[list[int]], *, state: Path, threads: int, callbacks: Sequence[Callback]
) -> Iterator[tuple[list[int], list[LearnedTask]]]:
    """Groups with what came of them, in order; a group that is done early waits for those before it."""
    config = experiment.config
    if config.scenario.endswith(".toml"):
        config = config.model_copy(update={"scenario": str(Path(config.scenario).resolve())})
    earlier: dict[str, dict[str, Tensor]] = {}
    if experiment.method.first_alone:
        first = experiment.scenario[0]
        earlier[first.name] = experiment.method.task_state(first)
    here = config.engine == "processes"  # Ray's workers may be on other machines, without this folder
    pieces = [
        GroupWork(config, experiment.recipe, list(group), earlier, checkpoint_file(state, group) if here else None)
        for group in groups
    ]
    waiting: dict[int, list[LearnedTask]] = {}
    following = 0
    engine = make_engine(config.engine, threads=threads, address=config.address)
    for number, found in engine.run(pieces, callbacks=callbacks):
        waiting[number] = found
        while following in waiting:
            yield groups[following], waiting.pop(following)
            following += 1


def checkpoint_file(state: Path, group: Sequence[int]) -> Path:
    """Where the state of a group is saved while it is learned by another process."""
    return state.resolve() / f"checkpoint-{group[0]:03d}.safetensors"


@lru_cache(maxsize=1)
def _experiment(config: str) -> Experiment:
    return build(RunConfig.model_validate_json(config))
