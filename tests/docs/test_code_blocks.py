"""Every Python block of README and docs runs, in order, file by file; the site builds without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block that only shows the shape of something says so, and why, right before it.
BLOCK = re.compile(r"(?P<aside><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line and code of each block that is to run."""
    text = page.read_text(encoding="utf-8")
    found = [match for match in BLOCK.finditer(text) if match["aside"] is None]
    return [(text[: match.start("code")].count("\n"), match["code"]) for match in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    names: dict[str, object] = {"__name__": page.stem}
    for line, code in blocks(page):
        # Empty lines before the code make a trace point into the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', index)
    shutil.rmtree(tmp_path / "site")


@pytest.mark.slow
def test_the_commands_on_example_tables_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's section on files, with fewer batches, and what the atlas says of few tasks."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    section = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").split("## From files")[1].split("## ")[0]
    commands = [line for line in section.splitlines() if line.startswith("crwn ")]
    assert [line.split()[1] for line in commands] == ["learn", "learn", "learn", "tasks", "predict", "atlas"]
    told = []
    for line in commands:
        words = line.split()[1:] + (["--batches", "60", "--hidden", "128"] if " learn " in line else [])
        done = subprocess.run([sys.executable, "-m", "crwn", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert "rows held out" in told[0]
    assert "3 tasks in shop.crwn" in told[3]
    assert set(told[4].split()) in ({"buys"}, {"leaves"}, {"buys", "leaves"})
    assert "among 3, unrelated tasks have about -0.50" in told[5]
