"""A run's independent groups of tasks learned on Ray's workers, each of which builds the bench from the config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from crwn.engine.on_ray import RayEngine
from crwn.experiments.bench import Bench, LearnedTask, build, learn_group
from crwn.experiments.config import RunConfig
from crwn.training import Callback


@dataclass(frozen=True)
class Piece:
    """A group of tasks, and the states of earlier tasks that it builds on."""

    config: RunConfig
    group: list[int]
    earlier: dict[str, dict[str, Tensor]]


def learn_on_workers(
    bench: Bench, groups: Sequence[list[int]], *, threads: int, callbacks: Sequence[Callback]
) -> Iterator[tuple[list[int], list[LearnedTask]]]:
    """Groups with what came of them, in order; a group that is done early waits for those before it."""
    config = bench.config
    if config.scenario.endswith(".toml"):
        config = config.model_copy(update={"scenario": str(Path(config.scenario).resolve())})
    earlier: dict[str, dict[str, Tensor]] = {}
    if bench.method.first_alone:
        first = bench.scenario[0]
        earlier[first.name] = bench.method.task_state(first)
    engine = RayEngine(address=config.address, threads=threads)
    pieces = [Piece(config, list(group), earlier) for group in groups]
    waiting: dict[int, list[LearnedTask]] = {}
    following = 0
    for number, found in engine.each(learn_piece, pieces, callbacks=callbacks):
        waiting[number] = found
        while following in waiting:
            yield groups[following], waiting.pop(following)
            following += 1


def learn_piece(piece: Piece, callbacks: Sequence[Callback]) -> list[LearnedTask]:
    """What a worker does."""
    bench = _bench(piece.config.model_dump_json())
    if piece.earlier:
        bench.method.restore(dict(piece.earlier), {})
    return learn_group(bench, piece.group, callbacks=callbacks)


@lru_cache(maxsize=1)
def _bench(config: str) -> Bench:
    return build(RunConfig.model_validate_json(config))
