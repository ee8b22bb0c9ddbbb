import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crwn.cli.data import app
from crwn.errors import DataError

pytestmark = pytest.mark.usefixtures("cache")


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_fetch_import_and_list(tmp_path: Path) -> None:
    assert json.loads(run("fetch", "digits", "--json"))["classes"] == 10
    np.savez(tmp_path / "a.npz", x=np.ones((10, 3)), y=[0, 1] * 5)
    told = run("import", "mine", str(tmp_path / "a.npz"))
    assert told.startswith("mine: 8 training and 2 test rows of 3, 2 classes")
    listed = {entry["name"]: entry["cached"] for entry in json.loads(run("list", "--json"))}
    assert listed == {"cifar100": False, "digits": True, "mine": True, "mini_imagenet": False, "mnist": False}
    table = run("list")
    assert "mine" in table
    assert ["crwn", "data", "fetch", "mnist"][-1] in table


def test_errors_are_left_to_the_edge() -> None:
    with pytest.raises(DataError, match=r"there is no dataset 'nothing'"):
        run("fetch", "nothing")


@pytest.mark.parametrize("command", ["list", "fetch", "import"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: crwn data {command}" in run(command, "--help")
