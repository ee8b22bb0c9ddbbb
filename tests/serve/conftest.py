"""Fixtures of the service's tests: real digits, a model folder with two tasks, and a running service over a copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import crwn
from crwn.learner import Learner
from crwn.serve.limits import Limits
from serving import Array, Running, mirrored, running


@pytest.fixture(scope="session")
def taught(digits: tuple[Array, Array], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with two tasks: digits as they are, and mirrored."""
    x, y = digits
    folder = tmp_path_factory.mktemp("served") / "digits.crwn"
    model = crwn.NeuroModNet(in_features=64, hidden=(128, 128), classes=10, seed=0)
    with Learner(model, bank=folder) as learner:
        learner.learn_many({"upright": (x, y), "mirrored": (mirrored(x), y)}, batches=300, progress=False)
    return folder


@pytest.fixture
def learner(taught: Path, tmp_path: Path) -> Iterator[Learner]:
    """A learner over a copy of the model folder."""
    shutil.copytree(taught, tmp_path / "digits.crwn")
    with Learner.load(tmp_path / "digits.crwn") as opened:
        yield opened


@pytest.fixture
def service(learner: Learner) -> Iterator[Running]:
    """The learner being served."""
    with running(learner) as served:
        yield served


@pytest.fixture
def client(service: Running) -> Iterator[crwn.Client]:
    """A Python client of the service."""
    with crwn.Client(service.address) as opened:
        yield opened


@pytest.fixture
def http(service: Running) -> Iterator[httpx.Client]:
    """A plain HTTP client of the service."""
    with httpx.Client(base_url=service.address, timeout=60) as opened:
        yield opened


@pytest.fixture
def small_limits() -> Limits:
    return Limits(
        body_bytes=100_000,
        upload_bytes=200_000,
        unpacked_bytes=500_000,
        context_bytes=50_000,
        rows=100,
        jobs=2,
        batches=100_000,
        grace_seconds=1.0,
    )
