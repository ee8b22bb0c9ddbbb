"""A method in a Python file without a package around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crwn.errors import ConfigError
from crwn.experiments import RunConfig, run
from crwn.methods.make import find_method

CODE = "from crwn.methods.stl import STL\n\n\nclass Mine(STL):\n    name = 'mine'\n"


def test_a_class_in_a_file_is_a_method(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    found = find_method(f"{file}:Mine")
    assert found is find_method(f"{file}:Mine"), "imported once"
    config = RunConfig(scenario="rotated-digits", method=f"{file}:Mine", size="8", tasks=1, batches=2, threads=1)
    assert config.label == "mine.Mine-8-tasks=1-batches=2"
    result = run(config, config.folder(tmp_path / "runs"))
    assert len(result.accuracy) == 1
    file.write_text(CODE + "    x = 1\n")
    assert find_method(f"{file}:Mine") is not found
    with pytest.raises(ConfigError, match="method_sha256"):
        run(config, config.folder(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (None, "Mine", "there is no file"),
        (CODE, "Yours", "has no class Yours"),
        ("Mine = 3", "Mine", "something else than a subclass of crwn.methods.Method at Mine"),
        ("import nothing_of_this_name", "Mine", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_files_that_have_no_method(tmp_path: Path, code: str | None, name: str, message: str) -> None:
    if code is not None:
        (tmp_path / "mine.py").write_text(code)
    with pytest.raises(ConfigError, match=message):
        find_method(f"{tmp_path / 'mine.py'}:{name}")
