"""Run folders: damage is named, another run is refused, and two processes cannot share one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, RunResult, run
from crwn.experiments.folder import RunFolder
from crwn.experiments.run import OutOfTime
from small_runs import CONFIGS, SMALL, Death, DyingProgress


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


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1" + "0" * 400])
def test_values_that_are_not_finite_are_damage(value: str, tmp_path: Path) -> None:
    run(RunConfig(method="finetune", size="8", **SMALL), tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    record = json.loads(lines[1])
    lines[1] = json.dumps(record | {"accuracy": "here"}).replace('"here"', value) + "\n"
    path.write_text("".join(lines))
    with pytest.raises(ConfigError, match=r"line 2 of metrics\.jsonl cannot be read") as caught:
        RunFolder(tmp_path / "run").lines()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize("key", ["average_accuracy", "accuracy", "seconds_per_task"])
def test_results_that_are_not_finite_are_damage(key: str, value: str, tmp_path: Path) -> None:
    run(RunConfig(method="finetune", size="8", **SMALL), tmp_path / "run")
    path = tmp_path / "run" / "result.json"
    record = json.loads(path.read_text())
    record[key] = ["here"] * len(record[key]) if isinstance(record[key], list) else "here"
    path.write_text(json.dumps(record).replace('"here"', value))
    with pytest.raises(ConfigError, match=rf"result\.json: {key}.*finite number"):
        RunFolder(tmp_path / "run").result()


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_records_nested_too_deep_are_damage(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=rf"{name} cannot be read") as caught:
        _ = RunFolder(folder).record() if name == "config.json" else RunFolder(folder).result()
    assert "\n" not in str(caught.value)


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
        run(CONFIGS["finetune"], tmp_path / "run", progress=DyingProgress(at=30))
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
    quicker: list[RunResult] = []

    def late(self: RunFolder) -> Any:
        monkeypatch.setattr(RunFolder, "locked", locked)
        quicker.append(run(config.model_copy(update={"batches": batches}), tmp_path / "run"))
        return locked(self)

    monkeypatch.setattr(RunFolder, "locked", late)
    if batches == config.batches:
        assert run(config, tmp_path / "run") == quicker[0], "with its durations: nothing is learned again"
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
