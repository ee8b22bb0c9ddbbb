"""A run's independent groups of tasks learned by workers, each of which builds the bench from the config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from crwn.checkpoint import Checkpoint
from crwn.engine.on_ray import RayEngine
from crwn.engine.processes import ProcessEngine
from crwn.experiments.bench import Bench, LearnedTask, build, checkpoint_identity, learn_group
from crwn.experiments.config import RunConfig
from crwn.recipe import Recipe
from crwn.training import Callback


@dataclass(frozen=True)
class Piece:
    """A group of tasks, how they are taught, the states they build on, and where a long one is saved on the way."""

    config: RunConfig
    recipe: Recipe
    group: list[int]
    earlier: dict[str, dict[str, Tensor]]
    checkpoint: Path | None


def learn_on_workers(
    bench: Bench, groups: Sequence[list[int]], *, state: Path, threads: int, callbacks: Sequence[Callback]
) -> Iterator[tuple[list[int], list[LearnedTask]]]:
    """Groups with what came of them, in order; a group that is done early waits for those before it."""
    config = bench.config
    if config.scenario.endswith(".toml"):
        config = config.model_copy(update={"scenario": str(Path(config.scenario).resolve())})
    earlier: dict[str, dict[str, Tensor]] = {}
    if bench.method.first_alone:
        first = bench.scenario[0]
        earlier[first.name] = bench.method.task_state(first)
    here = config.engine == "processes"  # Ray's workers may be on other machines, without this folder
    pieces = [
        Piece(config, bench.recipe, list(group), earlier, checkpoint_file(state, group) if here else None)
        for group in groups
    ]
    waiting: dict[int, list[LearnedTask]] = {}
    following = 0
    for number, found in worker_engine(config.engine, config.address, threads).each(
        learn_piece, pieces, callbacks=callbacks
    ):
        waiting[number] = found
        while following in waiting:
            yield groups[following], waiting.pop(following)
            following += 1


def worker_engine(name: str, address: str | None, threads: int) -> ProcessEngine | RayEngine:
    """The engine of this name with workers of that many threads."""
    return ProcessEngine(threads=threads) if name == "processes" else RayEngine(address=address, threads=threads)


def checkpoint_file(state: Path, group: Sequence[int]) -> Path:
    """Where the state of a group is saved while it is learned by another process."""
    return state.resolve() / f"checkpoint-{group[0]:03d}.safetensors"


def learn_piece(piece: Piece, callbacks: Sequence[Callback]) -> list[LearnedTask]:
    """What a worker does."""
    bench = replace(_bench(piece.config.model_dump_json()), recipe=piece.recipe)
    if piece.earlier:
        bench.method.restore(dict(piece.earlier), {})
    checkpoint = None
    if piece.checkpoint is not None:
        names = [bench.scenario[i].name for i in piece.group]
        checkpoint = Checkpoint(piece.checkpoint, checkpoint_identity(piece.config, bench.recipe, names))
    return learn_group(bench, piece.group, callbacks=callbacks, checkpoint=checkpoint)


@lru_cache(maxsize=1)
def _bench(config: str) -> Bench:
    return build(RunConfig.model_validate_json(config))
