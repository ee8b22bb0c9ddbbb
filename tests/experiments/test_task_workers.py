"""Runs by workers, processes or Ray's, end with the numbers of runs done here, also when a worker is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crwn.experiments import OutOfTime, RunConfig, RunFolder, RunProgress, make_config, run
from crwn.experiments.plan import Planned, carry_out, carry_out_on_workers
from crwn.training.engines.ray import RayEngine
from processes import kill_workers

SMALL = {"scenario": "permuted-digits", "tasks": 5, "batches": 15, "threads": 1}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
both = pytest.mark.parametrize("engine", ["ray", "processes"])


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with RayEngine(threads=1, workers=2):  # runs find a cluster that is there
        yield


def _config(**changes: Any) -> RunConfig:
    return make_config(**SMALL | {"method": "flynet", "size": "150d"} | changes)


class _Killer(RunProgress):
    """Kills every worker that learns, once, when the run is under way."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.shares: list[float] = []

    def learning(self, first: int, last: int, done: float) -> None:
        self.shares.append(done)
        if not self.killed and done > 0.1:
            self.killed = kill_workers()


@both
def test_same_numbers_and_killed_workers_change_nothing(engine: str, tmp_path: Path) -> None:
    here = run(_config(), tmp_path / "here")  # wide enough for a group per task
    killer = _Killer()
    there = run(_config(engine=engine), tmp_path / "there", progress=killer)
    assert killer.killed
    assert max(killer.shares) == pytest.approx(1.0)
    assert there.accuracy == here.accuracy
    assert there.accuracy_after == here.accuracy_after
    assert [file.name for file in sorted((tmp_path / "there" / "state").iterdir())] == [
        file.name for file in sorted((tmp_path / "here" / "state").iterdir())
    ]
    for file in (tmp_path / "here" / "state").glob("task-*"):
        assert file.read_bytes() == (tmp_path / "there" / "state" / file.name).read_bytes()


@both
def test_later_tasks_build_on_the_first_also_on_workers(engine: str, tmp_path: Path) -> None:
    shared = {"method": "neuromodnet", "size": "256", "settings": {"pretrained": "true"}, "tasks": 3}
    here = run(_config(**shared), tmp_path / "here")
    there = run(_config(engine=engine, **shared), tmp_path / "there")
    assert there.accuracy == here.accuracy


@both
def test_dependent_tasks_are_learned_here_and_said_so(engine: str, tmp_path: Path) -> None:
    notes: list[str] = []
    place = "on Ray" if engine == "ray" else "by several processes"

    class Listening(RunProgress):
        def note(self, text: str) -> None:
            notes.append(text)

    settings: dict[str, Any] = {"method": "finetune", "size": "256", "tasks": 2}
    there = run(_config(engine=engine, **settings), tmp_path / "there", progress=Listening())
    assert there.accuracy == run(_config(**settings), tmp_path / "here").accuracy
    assert notes == ["the tasks of finetune depend on each other: they are learned here, not " + place]


@both
def test_stopped_by_its_deadline_it_goes_on(engine: str, tmp_path: Path) -> None:
    config = _config(engine=engine, tasks=4)
    with pytest.raises(OutOfTime, match="of 4 tasks"):
        run(config, tmp_path / "run", deadline=time.monotonic())
    assert run(config, tmp_path / "run").accuracy == run(_config(tasks=4), tmp_path / "here").accuracy


class _Shares(RunProgress):
    def __init__(self) -> None:
        self.shares: list[float] = []

    def suite(self, share: float, finished: int, runs: int) -> None:
        self.shares.append(share)


def _planned(base: Path, *configs: RunConfig) -> list[Planned]:
    return [Planned(config, config.folder(base), 5, 0, is_done=False, seconds_left=1.0) for config in configs]


@both
def test_runs_of_a_suite_on_workers_are_those_done_here(engine: str, tmp_path: Path) -> None:
    configs = [_config(), _config(method="finetune", size="16"), _config(method="psp", size="16")]
    here = carry_out(_planned(tmp_path / "here", *configs))
    progress = _Shares()
    there = carry_out_on_workers(_planned(tmp_path / "there", *configs), engine=engine, progress=progress)
    assert (len(here.finished), len(there.finished), there.left, there.failures) == (3, 3, [], [])
    assert progress.shares == sorted(progress.shares)
    assert progress.shares[-1] == pytest.approx(1.0)
    for config in configs:
        one, other = (RunFolder(config.folder(tmp_path / place)) for place in ("here", "there"))
        assert one.holds(config)
        assert other.holds(config)
        assert (a := one.result()) is not None
        assert (b := other.result()) is not None
        assert (a.accuracy, a.accuracy_after, a.forgetting) == (b.accuracy, b.accuracy_after, b.forgetting)


@both
def test_a_begun_run_goes_on_at_a_worker_and_failures_are_named(engine: str, tmp_path: Path) -> None:
    config = _config(method="finetune", size="16")
    folder = config.folder(tmp_path)
    with pytest.raises(OutOfTime):
        run(config.model_copy(update={"threads": 2}), folder, deadline=time.monotonic() - 1)  # workers have one thread
    begun = (folder / "config.json").read_bytes()
    outcome = carry_out_on_workers(_planned(tmp_path, config, _config(method="psp", size="none")), engine=engine)
    assert [item.config.method for item in outcome.finished] == ["finetune"]
    assert [(item.config.method, "none" in str(error)) for item, error in outcome.failures] == [("psp", True)]
    assert (folder / "config.json").read_bytes() == begun


@both
def test_no_time_left_leaves_runs_for_later(engine: str, tmp_path: Path) -> None:
    outcome = carry_out_on_workers(_planned(tmp_path, _config()), engine=engine, deadline=time.monotonic() - 1)
    assert (len(outcome.finished), len(outcome.left), outcome.failures) == (0, 1, [])


@both
def test_a_folder_that_another_process_holds_fails_alone(engine: str, tmp_path: Path) -> None:
    config, other = _config(method="finetune", size="16"), _config(method="psp", size="16")
    with RunFolder(config.folder(tmp_path)).locked():
        outcome = carry_out_on_workers(_planned(tmp_path, config, other), engine=engine)
    assert [item.config.method for item in outcome.finished] == ["psp"]
    assert "another process is doing the run" in str(outcome.failures[0][1])
