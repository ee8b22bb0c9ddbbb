"""What README, CONTRIBUTING and docs name exists: files, rooms in the order of the contract, linked headings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FOLDERS = ("src/", "tests/", "docs/", "examples/", "benchmarks/", "scripts/", "results/")
# `NAME.py`, `METHOD-SIZE`, `{a,b}` and `...` stand for something; glob patterns are expanded.
PLACEHOLDER = re.compile(r"NAME|METHOD|SCENARIO|FOLDER|[{<]|\.\.\.")


def named_paths(page: Path) -> list[str]:
    """Files and folders of the repository that a page names in backticks."""
    spans = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    words = {word.strip(",;:()").rstrip("/") for span in spans for word in span.split()}
    return sorted(word for word in words if word.startswith(FOLDERS) and not PLACEHOLDER.search(word))


def named_modules(page: Path) -> list[str]:
    """Python files that a page names in backticks without their folder, or with a part of it."""
    spans = re.findall(r"`([a-z_/]+\.py)`", page.read_text(encoding="utf-8"))
    return sorted({span for span in spans if not span.startswith(FOLDERS)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    missing = [path for path in named_paths(page) if not list(ROOT.glob(path))]
    assert missing == []
    everything = [str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts]
    assert [
        name for name in named_modules(page) if not any(f"/{path}".endswith(f"/{name}") for path in everything)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if heading:
            assert heading in headings(file), target


def headings(page: Path) -> set[str]:
    """The anchors of a page, as mkdocs makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def test_contributing_shows_the_rooms_of_the_contract() -> None:
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert shown == [layer for layer in layers if layer != "__main__"]
