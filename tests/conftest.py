"""Fixtures that several rooms use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

from browser import open_browser
from crwn import NeuroModNet
from crwn.data import ImageSet, load
from crwn.data.sources.download import UnreachableError
from digit_rows import Data
from postgres_server import PostgresServer, find_programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# An example may take any time: on a busy machine the first one, which imports and allocates, exceeds every limit.
hypothesis.settings.register_profile("crwn", deadline=None)
hypothesis.settings.load_profile("crwn")


@pytest.fixture(scope="session")
def digits() -> Data:
    """Scikit-learn's 1,797 handwritten digits: read-only rows of 64 grey levels from 0 to 16, and their labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, y = x.astype(np.float32), y.astype(np.int64)
    x.flags.writeable = y.flags.writeable = False
    return x, y


@pytest.fixture
def model() -> NeuroModNet:
    """A small network for rows of 64 features and ten classes."""
    return NeuroModNet(64, (48, 32), 10, seed=0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CRWN_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def mnist() -> ImageSet:
    """MNIST as `crwn.data.load` fetches it, kept in the user's cache so that a machine downloads it once."""
    try:
        return load("mnist")
    except UnreachableError as error:
        pytest.skip(f"no network and no MNIST in the cache: {error}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; not kept for the session, because its event loop occupies the thread while it is open."""
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server; its programs are installed first where they are missing."""
    programs = find_programs()
    if programs is None:
        script = Path(__file__).parents[1] / "scripts" / "install-postgres"
        done = subprocess.run([str(script)], capture_output=True, text=True)
        programs = find_programs()
        if programs is None:
            pytest.skip(f"PostgreSQL cannot be had here: {done.stderr.strip()[-200:]}")
    server = PostgresServer(programs)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)
