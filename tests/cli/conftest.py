"""Data files, the command line in this process, and a model folder made with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import SMALL, Crwn
from crwn.cli import main
from crwn.data import load


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as an upright and an upside-down task, for learning and for testing, in several forms."""
    digits, folder = load("digits"), tmp_path_factory.mktemp("data")
    x, y = digits.x_train.numpy(), digits.y_train.numpy()
    np.savez(folder / "up.npz", x=x[:600], y=y[:600])
    np.savez(folder / "down.npz", x=x[:600, ::-1, ::-1], y=y[:600])
    np.savez(folder / "test.npz", x=x[600:800], y=y[600:800])
    np.savez(folder / "unlabelled.npz", x=x[600:610])
    np.savez(folder / "narrow.npz", x=x[:100, :4], y=y[:100])
    lines = [",".join(f"p{i}" for i in range(64)) + ",label"]
    names = ["even", "odd"]
    lines += [
        ",".join(map(str, row.flatten())) + f",{names[int(v) % 2]}" for row, v in zip(x[:300], y[:300], strict=True)
    ]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def crwn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Crwn:
    """Run a command in this process: gives what it printed (read as JSON where asked for), or its one error line."""

    def run(*words: object, fails: bool = False) -> Any:
        monkeypatch.setattr(sys, "argv", ["crwn", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        told = capsys.readouterr()
        if fails:
            assert caught.value.code == 1
            assert told.err.startswith("error: ")
            assert told.err.count("\n") == 1
            assert told.out == ""
            return told.err.removeprefix("error: ").rstrip("\n")
        assert caught.value.code == 0, told.err
        return json.loads(told.out) if "--json" in words else told.out

    return run


@pytest.fixture
def model_folder(crwn: Crwn, files: Path, tmp_path: Path) -> Path:
    """A folder with the tasks "up" and "down"."""
    crwn("learn", tmp_path / "m.crwn", "up", files / "up.npz", *SMALL)
    crwn("learn", tmp_path / "m.crwn", "down", files / "down.npz", "--batches", 60)
    return tmp_path / "m.crwn"
