"""Runs: numbers, folders, and going on after a death at any write or inside a task."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crwn.checkpoint import Checkpoint
from crwn.errors import ConfigError
from crwn.experiments import RunConfig, RunResult, Watcher, folder, run
from crwn.experiments.config import USUAL_TASKS
from crwn.experiments.folder import RunFolder
from crwn.experiments.run import OutOfTime

SMALL = {"scenario": "rotated-digits", "tasks": 5, "batches": 8, "threads": 1}
CONFIGS = {
    "neuromodnet": RunConfig(method="neuromodnet", size="64", **SMALL),
    "pretrained": RunConfig(method="neuromodnet", size="32", settings={"pretrained": "true"}, **SMALL),
    "finetune": RunConfig(method="finetune", size="32", matrix=True, **SMALL),
}
OTHERS = {
    name: RunConfig(method=name, size="2d" if name == "flynet" else "32", **SMALL)
    for name in ("flynet", "supsup", "batche", "psp", "stl", "mtl", "ewc", "replay")
}


class Death(BaseException):
    """Stands for a kill: nothing in the code may catch it."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    base = tmp_path_factory.mktemp("undisturbed")
    return {name: run(config, base / name) for name, config in (CONFIGS | OTHERS).items()}


@pytest.fixture
def small_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from crwn.methods.neuromodnet import NeuroModNetMethod

    monkeypatch.setattr(NeuroModNetMethod, "stack_size", property(lambda self: 2))


def test_result_is_written_and_read_again(tmp_path: Path) -> None:
    first = run(CONFIGS["neuromodnet"], tmp_path / "run")
    assert first.average_accuracy == pytest.approx(sum(first.accuracy) / 5)
    assert first.forgetting == 0.0
    assert first.accuracy == first.accuracy_after
    assert first.params_per_task == 64 + 2 * 64 + 3
    written = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    assert run(CONFIGS["neuromodnet"], tmp_path / "run") == first
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == written

    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(record["versions"]) == {"python", "crwn", "torch", "numpy"}
    assert {"processor", "cores", "threads"} <= set(record["machine"])
    assert record["chosen"]["stack_size"] == 16
    assert record["command"].startswith("crwn run rotated-digits neuromodnet --size 64 --tasks 5 --batches 8")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["task"] for line in lines] == [0, 1, 2, 3, 4]
    assert all(line["training_seconds"] > 0 and line["evaluation_seconds"] > 0 for line in lines)
    assert first.peak_memory_bytes > 10**7


def test_what_forgets_and_what_does_not(undisturbed: dict[str, RunResult]) -> None:
    forgot = {name: result.forgetting for name, result in undisturbed.items()}
    for name in ("neuromodnet", "pretrained", "flynet", "supsup", "batche", "stl"):
        assert forgot[name] == 0.0, name
    assert forgot["mtl"] is None
    assert all(forgot[name] is not None for name in ("finetune", "psp", "ewc", "replay"))


def test_matrix_and_transfer(undisturbed: dict[str, RunResult]) -> None:
    result = undisturbed["finetune"]
    assert result.matrix is not None
    assert [len(row) for row in result.matrix] == [1, 2, 3, 4, 5]
    assert result.matrix[-1] == result.accuracy
    assert [row[-1] for row in result.matrix] == result.accuracy_after
    assert result.forward_transfer is not None
    assert result.forward_transfer > 5  # neighbouring rotations help each other
    assert result.backward_transfer == -(result.forgetting or 0.0)


def test_class_incremental(tmp_path: Path) -> None:
    config = RunConfig(
        scenario="permuted-digits", method="neuromodnet", size="256", tasks=3, class_incremental=16, threads=1
    )
    result = run(config, tmp_path / "run")
    assert result.class_incremental is not None
    assert result.class_incremental["task_accuracy"] > 90
    assert 80 < result.class_incremental["accuracy"] <= result.average_accuracy


def test_a_scenario_with_fewer_tasks_than_usual_goes_on_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An imported part of a data set gives fewer tasks than the paper has."""
    monkeypatch.setitem(USUAL_TASKS, "rotated-digits", 40)
    config = RunConfig(scenario="rotated-digits", method="finetune", size="8", batches=1, threads=1)
    with pytest.raises(OutOfTime):
        run(config, tmp_path / "run", deadline=0.0)
    first = run(config, tmp_path / "run")
    assert len(first.accuracy) == 36
    assert run(config, tmp_path / "run") == first
    with pytest.raises(ConfigError, match="holds another run"):
        run(config.model_copy(update={"tasks": 5}), tmp_path / "run")


def test_all_tasks_are_not_those_of_a_shorter_run(tmp_path: Path) -> None:
    run(RunConfig(method="finetune", size="8", **SMALL), tmp_path / "run")
    with pytest.raises(ConfigError, match="tasks is 5 there, 36 here"):
        run(RunConfig(method="finetune", size="8", **SMALL | {"tasks": None}), tmp_path / "run")


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,label\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(60)))
    (tmp_path / "turned.toml").write_text('kind = "permuted"\ndata = "table.csv"\ntasks = 2\nbatches = 2\n')
    config = RunConfig(scenario=str(tmp_path / "turned.toml"), method="stl", size="8", threads=1)
    with pytest.raises(OutOfTime):
        run(config, tmp_path / "run", deadline=0.0)
    (tmp_path / "table.csv").write_text("a,b,label\n" + "".join(f"{i},{i % 5},{i % 2}\n" for i in range(60)))
    with pytest.raises(ConfigError, match="the data of its tasks are not what they were"):
        run(config, tmp_path / "run")


def test_a_finished_run_does_not_answer_for_other_data(tmp_path: Path) -> None:
    for place, modulus in (("a", 7), ("b", 5)):
        (tmp_path / place).mkdir()
        rows = "".join(f"{i},{i % modulus},{i % 2}\n" for i in range(60))
        (tmp_path / place / "table.csv").write_text(f"a,b,label\n{rows}")
        (tmp_path / place / "mine.toml").write_text('kind = "permuted"\ndata = "table.csv"\ntasks = 2\nbatches = 2\n')
    config = RunConfig(scenario=str(tmp_path / "a" / "mine.toml"), method="stl", size="8", threads=1)
    done = run(config, tmp_path / "run")
    assert run(config, tmp_path / "run") == done
    other = config.model_copy(update={"scenario": str(tmp_path / "b" / "mine.toml")})
    with pytest.raises(ConfigError, match="the data of its tasks are not what they were"):
        run(other, tmp_path / "run")


def test_all_tasks_of_a_file_are_not_those_of_a_shorter_run(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,label\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(60)))
    (tmp_path / "mine.toml").write_text('kind = "permuted"\ndata = "table.csv"\ntasks = 2\nbatches = 2\n')
    config = RunConfig(scenario=str(tmp_path / "mine.toml"), method="stl", size="8", tasks=1, threads=1)
    run(config, tmp_path / "run")
    with pytest.raises(ConfigError, match="tasks is 1 there, all here"):
        run(config.model_copy(update={"tasks": None}), tmp_path / "run")


def test_metrics_that_are_no_file(tmp_path: Path) -> None:
    config = RunConfig(method="finetune", size="8", **SMALL)
    run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (tmp_path / "run" / "metrics.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"metrics\.jsonl cannot be read"):
        run(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("part", "key"), [("chosen", "threads"), ("chosen", "stack_size"), ("chosen", "recipe"), (None, "versions")]
)
def test_a_config_that_lacks_something_is_damaged(part: str | None, key: str, tmp_path: Path) -> None:
    config = RunConfig(method="finetune", size="8", **SMALL)
    run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    del (record if part is None else record[part])[key]
    (tmp_path / "run" / "config.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"is damaged: config\.json"):
        run(config, tmp_path / "run")


def test_a_line_that_lacks_something_is_damaged(tmp_path: Path) -> None:
    config = RunConfig(method="finetune", size="8", **SMALL)
    run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "run" / "metrics.jsonl").write_text("\n".join(['{"task": 0}', *lines[1:]]) + "\n")
    with pytest.raises(ConfigError, match=r"line 1 of metrics\.jsonl cannot be read"):
        run(config, tmp_path / "run")


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

    monkeypatch.setattr(folder.os, "fsync", fsync)


@pytest.mark.usefixtures("small_stacks")
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_death_at_every_write(name: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(CONFIGS[name], tmp_path / "small-stacks").numbers()
    deaths = 0
    for at in range(0, 100, 3 if torn else 2):
        where = tmp_path / f"run-{at}"
        with monkeypatch.context() as patch:
            _dying_writes(patch, at, torn=torn)
            try:
                run(CONFIGS[name], where)
            except Death:
                deaths += 1
            else:
                break
        assert run(CONFIGS[name], where).numbers() == expected, f"death at sync {at}"
    assert deaths >= 5


class DyingWatcher(Watcher):
    """Dies in the middle of learning."""

    def __init__(self, at: int) -> None:
        self.left = at

    def learning(self, first: int, last: int, done: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise Death


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
            run((CONFIGS | OTHERS)[name], tmp_path / "run", watcher=DyingWatcher(at=8))
        except Death:
            deaths += 1
    assert deaths
    assert run((CONFIGS | OTHERS)[name], tmp_path / "run").numbers() == undisturbed[name].numbers()
    assert max(resumed) > 0
    assert not list((tmp_path / "run" / "state").glob("checkpoint*"))


def test_only_the_last_shared_state_is_kept(tmp_path: Path) -> None:
    run(CONFIGS["finetune"], tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "state").glob("shared-*")] == ["shared-005.safetensors"]


@pytest.mark.usefixtures("small_stacks")
def test_deadline_stops_between_tasks_and_goes_on(tmp_path: Path, undisturbed: dict[str, RunResult]) -> None:
    with pytest.raises(OutOfTime, match="after 0 of 5 tasks"):
        run(CONFIGS["finetune"], tmp_path / "run", deadline=0.0)
    assert run(CONFIGS["finetune"], tmp_path / "run").numbers() == undisturbed["finetune"].numbers()


def test_recorded_stack_size_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crwn.methods.neuromodnet import NeuroModNetMethod

    with monkeypatch.context() as patch:
        patch.setattr(NeuroModNetMethod, "stack_size", property(lambda self: 2))
        with pytest.raises(Death):
            run(CONFIGS["neuromodnet"], tmp_path / "run", watcher=DyingWatcher(at=12))
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
    assert run(config, tmp_path / "run").numbers() == whole.numbers()


def test_another_run_in_the_folder(tmp_path: Path) -> None:
    run(CONFIGS["finetune"], tmp_path / "run")
    with pytest.raises(ConfigError, match=r"holds another run .*seed is 0 there, 1 here"):
        run(CONFIGS["finetune"].model_copy(update={"seed": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="begun with 1 threads, not 2"):
        run(CONFIGS["finetune"].model_copy(update={"threads": 2}), tmp_path / "run")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: _cut(path / "config.json"), "config.json cannot be read"),
        (lambda path: (path / "config.json").unlink(), "there is metrics.jsonl but no config.json"),
        (lambda path: (path / "config.json").write_text("[]"), "config.json is not an object"),
        (lambda path: (path / "config.json").write_text('{"format": 99}'), "not of format 1"),
        (lambda path: _cut(path / "state" / "task-000.safetensors"), "task-000.safetensors is not what was written"),
        (lambda path: (path / "state" / "task-001.safetensors").unlink(), "task-001.safetensors is missing"),
        (
            lambda path: (path / "metrics.jsonl").write_text("nonsense\n" + (path / "metrics.jsonl").read_text()),
            "line 1 of metrics.jsonl cannot be read",
        ),
        (
            lambda path: (path / "metrics.jsonl").write_text((path / "metrics.jsonl").read_text() * 2),
            "line 4 of metrics.jsonl is about task 0",
        ),
    ],
)
def test_damaged_folder(harm: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(Death):
        run(CONFIGS["finetune"], tmp_path / "run", watcher=DyingWatcher(at=30))
    assert len(RunFolder(tmp_path / "run").lines()) == 3
    harm(tmp_path / "run")
    with pytest.raises(ConfigError, match=message) as caught:
        run(CONFIGS["finetune"], tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"accuracy": []}'])
def test_damaged_result(text: str, tmp_path: Path) -> None:
    run(CONFIGS["finetune"], tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(text)
    with pytest.raises(ConfigError, match=r"damaged: result.json.*delete the folder"):
        run(CONFIGS["finetune"], tmp_path / "run")


def test_two_processes_cannot_do_one_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").locked(), pytest.raises(ConfigError, match="another process is doing the run"):
        run(CONFIGS["finetune"], tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": "rotated-letters"}, "rotated-digits"),
        ({"method": "neuromodnett"}, "neuromodnet, flynet"),
        ({"size": "huge"}, "huge"),
        ({"settings": {"colour": "red"}}, "rate"),
        ({"settings": {"batches": "3"}}, "use --batches 3"),
        ({"tasks": 99}, "99"),
    ],
)
def test_unknown_names_leave_no_folder(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        run(CONFIGS["neuromodnet"].model_copy(update=change), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_all_tasks_are_those_there_were_when_it_began(tmp_path: Path) -> None:
    (tmp_path / "turned.toml").write_text('kind = "rotated"\ndata = "digits"\nstep = 120\nbatches = 1\n')
    config = RunConfig(scenario=str(tmp_path / "turned.toml"), method="stl", size="8", threads=1)
    run(config.model_copy(update={"tasks": 2}), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    record["chosen"]["all_tasks"] = True  # as a version wrote it that saw two tasks in this file
    (tmp_path / "run" / "config.json").write_text(json.dumps(record))
    assert len(run(config, tmp_path / "run").tasks) == 2


@pytest.mark.parametrize("batches", [4, 8])
def test_a_process_that_was_quicker_is_noticed(batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came between the look into the folder and the lock: another run is refused, the same one is read."""
    config = RunConfig(method="finetune", size="8", **SMALL)
    locked = RunFolder.locked

    def late(self: RunFolder) -> Any:
        monkeypatch.setattr(RunFolder, "locked", locked)
        run(config.model_copy(update={"batches": batches}), tmp_path / "run")
        return locked(self)

    monkeypatch.setattr(RunFolder, "locked", late)
    if batches == config.batches:
        finished = run(config, tmp_path / "run").finished
        assert RunFolder(tmp_path / "run").result().finished == finished
    else:
        with pytest.raises(ConfigError, match=r"holds another run .batches is 4 there, 8 here"):
            run(config, tmp_path / "run")


def test_a_line_without_its_row_of_the_matrix_is_damaged(tmp_path: Path) -> None:
    config = RunConfig(method="finetune", size="8", matrix=True, **SMALL)
    run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    del lines[1]["row"]
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match="a line without its row of the accuracy matrix"):
        run(config, tmp_path / "run")


def _change(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "stl"}, "result.json is another run's .method is 'stl' there, 'finetune' in config.json"),
        ({"tasks": []}, "result.json is another run's .tasks is"),
        ({"accuracy": [90.0]}, "result.json has 1 values of accuracy, 5 tasks"),
    ],
)
def test_a_result_that_is_not_this_runs_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    config = RunConfig(method="finetune", size="8", **SMALL)
    run(config, tmp_path / "run")
    _change(tmp_path / "run" / "result.json", **changes)
    with pytest.raises(ConfigError, match=message):
        run(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 100_000}, "100000 threads are more than any machine has use for"),
        ({"settings": {"patience": "1"}}, "--set patience=1: runs have no validation rows"),
        ({"settings": {"rate": "inf"}}, "rate"),
        ({"method": "ewc", "settings": {"strength": "nan"}}, "strength"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run(RunConfig(**({"method": "finetune", "size": "8", **SMALL} | changes)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_measures_without_a_meaning_are_not_made(tmp_path: Path) -> None:
    small = SMALL | {"matrix": True, "class_incremental": 4}
    joint = run(RunConfig(method="mtl", size="8", **small), tmp_path / "mtl")
    assert (joint.matrix, joint.class_incremental) == (None, None)
    alike = run(RunConfig(method="finetune", size="8", **small), tmp_path / "finetune")
    assert alike.matrix is not None
    assert alike.class_incremental is None
    assert run(RunConfig(method="psp", size="8", **small), tmp_path / "psp").class_incremental is not None


@pytest.mark.parametrize("method", ["replay", "finetune", "ewc", "stl"])
def test_bytes_per_task_are_those_on_disk(method: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    result = run(RunConfig(method=method, size="8", **SMALL), tmp_path / "run")
    tensors = [value for path in (tmp_path / "run" / "state").iterdir() for value in load_file(path).values()]
    assert sum(value.nbytes for value in tensors) == pytest.approx(result.bytes_per_task * 5, abs=5)
