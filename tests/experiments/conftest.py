"""Results that several tests compare with, and methods with small stacks."""

from __future__ import annotations

import pytest

from crwn.experiments import RunResult, run
from crwn.methods.neuromodnet import NeuroModNetMethod
from small_runs import CONFIGS, OTHERS


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    """The result of every small run, done without an interruption."""
    base = tmp_path_factory.mktemp("undisturbed")
    return {name: run(config, base / name) for name, config in (CONFIGS | OTHERS).items()}


@pytest.fixture
def small_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks of NeuroModNet to a stack."""
    monkeypatch.setattr(NeuroModNetMethod, "stack_size", property(lambda self: 2))
