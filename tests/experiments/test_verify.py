"""A record is repeated: equal where nothing changed, different where the code or the record did."""

import json
from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunFolder, make_config, run
from crwn.experiments.environment import commit, instruction_set
from crwn.experiments.verify import verify

SMALL = {"scenario": "rotated-digits", "tasks": 3, "batches": 15, "threads": 1}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for method in ("neuromodnet", "finetune"):
        run(make_config(method=method, size="16", **SMALL), folder / method)
    return folder


@pytest.mark.parametrize("method", ["neuromodnet", "finetune"])
def test_an_unchanged_record_is_equal(records: Path, method: str) -> None:
    found = verify(records / method)
    assert (found.outcome, found.difference, found.noise, found.environment) == ("equal", 0.0, None, [])
    first = verify(records / method, tasks=1)
    assert (first.outcome, first.tasks) == ("equal", 1)


def test_a_record_of_other_numbers_is_different(records: Path, tmp_path: Path) -> None:
    result = json.loads((records / "neuromodnet" / "result.json").read_text())
    result["accuracy"] = [value - 20 for value in result["accuracy"]]
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / name).write_text((records / "neuromodnet" / name).read_text())
    (tmp_path / "result.json").write_text(json.dumps(result))
    found = verify(tmp_path)
    assert found.outcome == "different"
    assert found.difference == pytest.approx(20)
    assert found.noise is not None


def test_what_cannot_be_verified_is_one_line(records: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run to verify"):
        verify(tmp_path)
    with pytest.raises(ConfigError, match="has 3 tasks: verify 1 to 3"):
        verify(records / "neuromodnet", tasks=4)


def test_records_carry_the_commit_and_the_instruction_set(records: Path) -> None:
    record = RunFolder(records / "neuromodnet").record()
    assert record is not None
    assert record["machine"]["instruction_set"] == instruction_set()
    assert record["commit"] == commit()
