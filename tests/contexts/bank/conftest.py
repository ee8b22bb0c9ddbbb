"""Banks for the tests: in memory, in SQLite, and in a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from crwn.contexts import Context
from crwn.contexts.bank import Bank, open_bank

MODEL = "ab" * 32
SHAPES = {"layers.0.v": (12,), "layers.0.alpha": (), "layers.1.v": (5,), "layers.1.alpha": ()}
Make = Callable[..., Context]


@pytest.fixture(scope="session")
def make() -> Make:
    """Makes a small context of its own numbers."""

    def make_context(name: str, seed: int = 0, *, model: str = MODEL, **more: object) -> Context:
        generator = torch.Generator().manual_seed(seed)
        tensors = {key: torch.randn(shape, generator=generator) for key, shape in SHAPES.items()}
        return Context(name, tensors, ("cat", "dog", 3), model, "2026-01-02T03:04:05+00:00", {"seed": seed, **more})

    return make_context


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a bank that is not there yet, in each database."""
    if request.param == "sqlite":
        return str(tmp_path / "bank.sqlite")
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """An empty bank of each kind."""
    place = None
    if request.param == "sqlite":
        place = str(tmp_path / "bank.sqlite")
    elif request.param == "postgres":
        place = request.getfixturevalue("postgres").new_database()
    with open_bank(place) as opened:
        yield opened
