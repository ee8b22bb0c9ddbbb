"""A run that is stopped at any moment goes on with the same numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crwn.experiments import RunConfig, RunResult, run
from crwn.experiments.folder import RunFolder
from crwn.experiments.run import OutOfTime
from crwn.training.checkpoint import Checkpoint
from small_runs import CONFIGS, OTHERS, SMALL, Death, DyingProgress


def _dying_writes(monkeypatch: pytest.MonkeyPatch, at: int, *, torn: bool) -> None:
    """Die at the given sync to disk; torn: with only a part of the bytes written."""
    real, calls = os.fsync, iter(range(10**6))

    def fsync(file: int) -> None:
        if next(calls) == at:
            if torn and (size := os.fstat(file).st_size):
                with suppress(OSError):  # a folder cannot be torn
                    os.ftruncate(file, size - min(size, 7))
            raise Death
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.usefixtures("small_stacks")
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_death_at_every_write(name: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(CONFIGS[name], tmp_path / "small-stacks").deterministic()
    deaths = 0
    for at in range(0, 100, 2 if torn else 1):
        where = tmp_path / f"run-{at}"
        with monkeypatch.context() as patch:
            _dying_writes(patch, at, torn=torn)
            try:
                run(CONFIGS[name], where)
            except Death:
                deaths += 1
            else:
                break
        assert run(CONFIGS[name], where).deterministic() == expected, f"death at sync {at}"
    assert deaths >= 5


@pytest.mark.parametrize("name", list(CONFIGS | OTHERS))
def test_death_inside_tasks_goes_on_from_the_checkpoint(
    name: str, undisturbed: dict[str, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_third: Iterator[bool] = iter([False, False, True] * 10_000)
    monkeypatch.setattr(Checkpoint, "due", lambda self: next(every_third))
    resumed: list[int] = []
    restore = Checkpoint.restore

    def noting(self: Checkpoint, *arguments: Any) -> int:
        resumed.append(restore(self, *arguments))
        return resumed[-1]

    monkeypatch.setattr(Checkpoint, "restore", noting)
    deaths = 0
    for _ in range(4):
        try:
            run((CONFIGS | OTHERS)[name], tmp_path / "run", progress=DyingProgress(at=8))
        except Death:
            deaths += 1
    assert deaths
    assert run((CONFIGS | OTHERS)[name], tmp_path / "run").deterministic() == undisturbed[name].deterministic()
    assert max(resumed) > 0
    assert not list((tmp_path / "run" / "state").glob("checkpoint*"))


def test_only_the_last_shared_state_is_kept(tmp_path: Path) -> None:
    run(CONFIGS["finetune"], tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "state").glob("shared-*")] == ["shared-005.safetensors"]


@pytest.mark.usefixtures("small_stacks")
def test_deadline_stops_between_tasks_and_goes_on(tmp_path: Path, undisturbed: dict[str, RunResult]) -> None:
    with pytest.raises(OutOfTime, match="after 0 of 5 tasks"):
        run(CONFIGS["finetune"], tmp_path / "run", deadline=0.0)
    assert run(CONFIGS["finetune"], tmp_path / "run").deterministic() == undisturbed["finetune"].deterministic()


def test_recorded_stack_size_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crwn.methods.neuromodnet import NeuroModNetMethod

    with monkeypatch.context() as patch:
        patch.setattr(NeuroModNetMethod, "stack_size", property(lambda self: 2))
        with pytest.raises(Death):
            run(CONFIGS["neuromodnet"], tmp_path / "run", progress=DyingProgress(at=12))
    assert len(RunFolder(tmp_path / "run").lines()) == 2
    run(CONFIGS["neuromodnet"], tmp_path / "run")
    assert [line["together_with"] for line in RunFolder(tmp_path / "run").lines()] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_recorded_recipe_is_used_again(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version with another usual rate ends the run as it was begun."""
    from crwn.methods.neuromodnet import NeuroModNetMethod

    config = RunConfig(method="neuromodnet", size="8", engine=engine, **SMALL)
    whole = run(config, tmp_path / "whole")
    usual = NeuroModNetMethod.recipe
    with pytest.raises(OutOfTime):
        run(config, tmp_path / "run", deadline=0.0)
    monkeypatch.setattr(NeuroModNetMethod, "recipe", lambda self, **overrides: usual(self, **overrides | {"rate": 0.5}))
    assert run(config, tmp_path / "run").deterministic() == whole.deterministic()
