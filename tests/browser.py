"""A real Chromium for tests: found, or installed from Debian's packages where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


def find_chromium() -> str:
    """The path of a Chromium; where there is none it is installed, and where it cannot be, the test is skipped."""
    given = os.environ.get("CRWN_CHROMIUM")
    if given:
        return given
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        script = Path(__file__).resolve().parents[1] / "scripts" / "install-chromium"
        done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no Chromium, and it cannot be installed: {done.stderr.strip()[-200:]}")
        found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium, even after installing Debian's package")
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    sync_api.expect.set_options(timeout=60_000)  # five seconds are too few on a busy machine
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
