"""Suites and plans: every published row is there, what is done is not done again, cheapest first."""

from __future__ import annotations

import time
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from crwn.errors import ConfigError, CRWNError
from crwn.experiments import plan as plan_file
from crwn.experiments.folder import RunFolder
from crwn.experiments.paper import published
from crwn.experiments.plan import carry_out, plan
from crwn.experiments.suite import SUITES, Suite, fill, fill_best, load_suite

TINY = Suite.model_validate(
    {
        "name": "table1",
        "title": "Tiny",
        "about": "",
        "column": [{"key": "rotated", "label": "R", "scenario": "rotated-digits"}],
        "row": [
            {"label": "slow", "method": "neuromodnet", "size": "2048", "settings": {"batch_size": "8"}},
            {"label": "quick", "method": "neuromodnet", "size": "16", "settings": {"batch_size": "8"}},
        ],
    }
)


@pytest.mark.parametrize("name", SUITES)
def test_every_published_cell_is_in_its_suite(name: str) -> None:
    text = files("crwn.experiments").joinpath("paper.toml").read_text(encoding="utf-8")
    printed = {
        (row, column)
        for row, entry in tomllib.loads(text)[name].items()
        for column in entry
        if column not in ("params", "ratio")
    }
    suite = load_suite(name)
    assert {(cell.row.paper, cell.column.key) for cell in suite.cells() if cell.published} == printed
    labels = [row.label for row in suite.row]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", SUITES)
def test_suites_open_with_their_command(name: str) -> None:
    text = files("crwn.experiments").joinpath("suites", f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith(f"# crwn reproduce {name}\n")


def test_published_numbers() -> None:
    cell = published("table2", "neuromodnet-1d", "cifar100")
    assert cell is not None
    assert (cell.accuracy, cell.deviation, cell.params, cell.ratio) == (81.66, 0.39, "5K", "1:55")
    assert (cell.seconds, cell.seconds_deviation) == (243.0, 0.8)
    assert published("table2", "neuromodnet-6d", "mini-imagenet") is None


def test_unknown_suite() -> None:
    with pytest.raises(ConfigError, match="table1, table2, table3, table4"):
        load_suite("table5")


def test_tables_share_runs(tmp_path: Path) -> None:
    both = plan([load_suite("table1"), load_suite("table3"), load_suite("table4")], tmp_path, tasks=None, seeds=[0])
    folders = [item.folder for item in both]
    assert len(set(folders)) == len(folders)
    assert tmp_path / "rotated-mnist" / "neuromodnet-4096" / "seed-0" in folders


def test_cheapest_first_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    planned = plan([TINY], tmp_path, tasks=1, seeds=[0, 1])
    assert [item.config.size for item in planned] == ["16", "16", "2048", "2048"]
    begun: list[str] = []
    outcome = carry_out(planned[:3], begins=lambda item: begun.append(item.name))
    assert len(outcome.finished) == 3
    assert not outcome.left

    again = plan([TINY], tmp_path, tasks=1, seeds=[0, 1])
    assert [item.is_done for item in again] == [True, True, True, False]
    # Now there is a measured time to go by, and only one run is left.
    begun.clear()
    carry_out(again, begins=lambda item: begun.append(item.name))
    assert begun == [planned[3].name]
    assert carry_out(plan([TINY], tmp_path, tasks=1, seeds=[0, 1])).finished == []

    filled = fill(next(TINY.cells()), tmp_path, tasks=1, seeds=[0, 1])
    assert [result.seed for result in filled.results] == [0, 1]
    assert filled.unusual == "1 task"
    assert fill_best(next(TINY.cells()), tmp_path).results == filled.results


def test_budget_stops_and_goes_on(tmp_path: Path) -> None:
    planned = plan([TINY], tmp_path, tasks=1, seeds=[0])
    outcome = carry_out(planned, deadline=time.monotonic() - 1)
    assert outcome.left == planned
    assert not any(RunFolder(item.folder).path.exists() for item in planned)


def test_a_failing_run_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(config: object, folder: Path, **others: object) -> None:
        if "2048" in str(folder):
            raise CRWNError("no such luck")

    monkeypatch.setattr(plan_file, "run", failing)
    outcome = carry_out(list(reversed(plan([TINY], tmp_path, tasks=1, seeds=[0]))))
    assert [str(error) for _, error in outcome.failures] == ["no such luck"]
    assert [item.config.size for item in outcome.finished] == ["16"]


def test_a_damaged_folder_stops_no_other_run(tmp_path: Path) -> None:
    suite = load_suite("table4")
    broken = plan([suite], tmp_path, tasks=2, seeds=[0])[0]
    broken.folder.mkdir(parents=True)
    (broken.folder / "config.json").write_text("{")
    planned = plan([suite], tmp_path, tasks=2, seeds=[0])
    assert {item.folder: (item.is_done, item.tasks_done) for item in planned}[broken.folder] == (False, 0)
