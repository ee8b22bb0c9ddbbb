"""Work made ready for another process: a network that can be described travels as its description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from crwn.engine.work import Work
from crwn.errors import ModelError
from crwn.layers import context_tensors
from crwn.models import Network, build, describe, fingerprint
from crwn.recipe import Recipe
from crwn.rows import TaskRows
from crwn.training import Callback, Learned, train


@dataclass(frozen=True)
class Learning:
    """Work without its network, where the network can be described."""

    network: dict[str, Any] | nn.Module
    fingerprint: str
    tasks: Sequence[TaskRows]
    recipe: Recipe
    seed: int
    start: Sequence[Mapping[str, Tensor]]
    device: str


def as_learning(work: Work) -> Learning:
    network = describe(work.model) if isinstance(work.model, Network) else work.model
    # The network's own context goes along: a rebuilt one starts from its seed, this one may have been changed.
    own = context_tensors(work.model)
    start = [own] * len(work.tasks) if work.start is None else work.start
    return Learning(
        network, fingerprint(work.model), work.tasks, work.recipe, work.seed, start, str(torch.device(work.device))
    )


def learn(piece: Learning, callbacks: Sequence[Callback]) -> list[Learned]:
    """What a worker does."""
    network = piece.network
    if isinstance(network, dict):
        network = _rebuilt(json.dumps(network), piece.fingerprint)
    return train(
        network,
        piece.tasks,
        piece.recipe,
        seed=piece.seed,
        start=piece.start,
        device=piece.device,
        callbacks=callbacks,
    )


@lru_cache(maxsize=2)
def _rebuilt(described: str, expected: str) -> Network:
    """The described network, made once by each worker and compared with the original."""
    network = build(json.loads(described))
    found = fingerprint(network)
    if found != expected:
        raise ModelError(
            f"a worker made model {found[:12]}..., the original is {expected[:12]}...: install the same crwn everywhere"
        )
    return network
