"""Longer runs that begin with the tasks of a shorter one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crwn.experiments import RunConfig, RunProgress, RunResult, run
from crwn.experiments.folder import RunFolder

SMALL = {"scenario": "rotated-digits", "batches": 8, "threads": 1}


class Listener(RunProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.learned_here: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def learned(self, task: int, name: str, accuracy: float, seconds: float) -> None:
        self.learned_here.append(task)


def config(method: str, tasks: int, **fields: Any) -> RunConfig:
    return RunConfig(method=method, size="32", tasks=tasks, **(SMALL | fields))


def do(config: RunConfig, base: Path) -> tuple[RunResult, Listener]:
    listener = Listener()
    return run(config, config.folder(base), progress=listener), listener


def numbers(result: RunResult) -> tuple[object, ...]:
    return result.accuracy, result.accuracy_after, result.forgetting, result.params_per_task_amortised


@pytest.mark.parametrize("method", ["supsup", "psp", "finetune", "ewc", "replay", "stl"])
def test_goes_on_from_the_longest_shorter_run(tmp_path: Path, method: str) -> None:
    for tasks in (1, 2):
        do(config(method, tasks), tmp_path / "twice")
    longer, listener = do(config(method, 4), tmp_path / "twice")
    fresh, _ = do(config(method, 4), tmp_path / "once")
    assert numbers(longer) == numbers(fresh)
    assert listener.learned_here == [2, 3]
    assert listener.notes == [f"2 tasks are taken over from {config(method, 2).folder(tmp_path / 'twice')}"]


@pytest.mark.parametrize(("method", "learned"), [("neuromodnet", [0, 1, 2, 3]), ("batche", [1, 2, 3])])
def test_takes_whole_stacks_only(tmp_path: Path, method: str, learned: list[int]) -> None:
    """Two tasks are a part of the longer run's stack; BatchE learns its first task alone, before the stack."""
    for tasks in (1, 2):
        do(config(method, tasks), tmp_path)
    _, listener = do(config(method, 4), tmp_path)
    assert listener.learned_here == learned


def test_the_shorter_run_is_left_as_it_was(tmp_path: Path) -> None:
    short = config("psp", 2).folder(tmp_path)
    run(config("psp", 2), short)
    before = {path.name: path.read_bytes() for path in short.rglob("*") if path.is_file()}
    do(config("psp", 3), tmp_path)
    assert {path.name: path.read_bytes() for path in short.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("another seed", {"seed": 1}),
        ("other batches", {"batches": 9}),
        ("another rate", {"settings": {"rate": "0.003"}}),
        ("other threads", {"threads": 2}),
    ],
)
def test_nothing_is_taken_from_another_run(tmp_path: Path, change: str, fields: dict[str, object]) -> None:
    do(config("supsup", 1), tmp_path)
    _, listener = do(config("supsup", 2, **fields), tmp_path)
    assert listener.learned_here == [0, 1], change


def test_records_without_state_are_passed_over(tmp_path: Path) -> None:
    do(config("supsup", 1), tmp_path)
    shutil.rmtree(config("supsup", 1).folder(tmp_path) / "state")
    _, listener = do(config("supsup", 2), tmp_path)
    assert listener.learned_here == [0, 1]


def test_other_versions_and_unfinished_runs_are_passed_over(tmp_path: Path) -> None:
    folder = config("supsup", 1).folder(tmp_path)
    do(config("supsup", 1), tmp_path)
    record = json.loads((folder / "config.json").read_text())
    record["versions"]["torch"] = "1.0"
    (folder / "config.json").write_text(json.dumps(record))
    _, listener = do(config("supsup", 2), tmp_path)
    assert listener.learned_here == [0, 1]

    (config("supsup", 2).folder(tmp_path) / "result.json").unlink()
    _, listener = do(config("supsup", 3), tmp_path)
    assert listener.learned_here == [0, 1, 2]


def test_joint_learning_takes_nothing(tmp_path: Path) -> None:
    do(config("mtl", 2), tmp_path)
    result, listener = do(config("mtl", 3), tmp_path)
    assert listener.learned_here == [0, 1, 2]
    assert len(RunFolder(config("mtl", 3).folder(tmp_path)).lines()) == len(result.accuracy) == 3


def test_nothing_is_taken_when_the_data_changed(tmp_path: Path) -> None:
    table, lines = tmp_path / "table.csv", ["a,b,label"]
    lines += [f"{i},{i % 7},{'even' if i % 2 == 0 else 'odd'}" for i in range(60)]
    table.write_text("\n".join(lines))
    scenario = tmp_path / "permuted.toml"
    scenario.write_text('kind = "permuted"\ndata = "table.csv"\ntasks = 3\nbatches = 4\n')
    asked = {"scenario": str(scenario), "batches": None}
    do(config("stl", 1, **asked), tmp_path / "same")
    do(config("stl", 1, **asked), tmp_path / "changed")
    whole = config("stl", 3, **asked).model_copy(update={"tasks": None})
    assert do(whole, tmp_path / "same")[1].learned_here == [1, 2]

    table.write_text("\n".join([*lines[:-1], "59,3,even"]))
    longer, listener = do(whole, tmp_path / "changed")
    assert listener.learned_here == [0, 1, 2]
    assert longer.forgetting == 0.0


@pytest.mark.parametrize("damage", ["no metrics", "no versions", "state"])
def test_a_damaged_shorter_run_stops_nothing(tmp_path: Path, damage: str) -> None:
    do(config("psp", 2), tmp_path)
    folder = config("psp", 2).folder(tmp_path)
    if damage == "no metrics":
        (folder / "metrics.jsonl").unlink()
    elif damage == "no versions":
        record = json.loads((folder / "config.json").read_text())
        del record["versions"]
        (folder / "config.json").write_text(json.dumps(record))
    else:
        (folder / "state" / "task-001.safetensors").write_bytes(b"nonsense")
    longer, listener = do(config("psp", 3), tmp_path)
    assert listener.learned_here == [0, 1, 2]
    assert numbers(longer) == numbers(do(config("psp", 3), tmp_path / "fresh")[0])


def test_a_run_with_the_defaults_of_an_earlier_version_keeps_them(tmp_path: Path) -> None:
    """Records once lacked the method's options; pretrained mode then had a first rate of 0.001."""
    settings = {"pretrained": "true"}
    short, longer = (config("neuromodnet", tasks, settings=settings) for tasks in (1, 2))
    do(short, tmp_path)
    path = short.folder(tmp_path) / "config.json"
    record = json.loads(path.read_text())
    assert record["chosen"].pop("options")["first_rate"] == 0.01
    path.write_text(json.dumps(record))
    _, listener = do(longer, tmp_path)
    assert listener.learned_here == [0, 1]
    begun = short.folder(tmp_path / "begun")
    (begun / "state").mkdir(parents=True)
    shutil.copy(path, begun)
    again, _ = do(short, tmp_path / "begun")
    explicit, _ = do(config("neuromodnet", 1, settings=settings | {"first_rate": "0.001"}), tmp_path)
    assert again.accuracy == explicit.accuracy
    assert do(short, tmp_path / "fresh")[0].accuracy != explicit.accuracy
