"""The report page, in a real browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from crwn.cli import app
from crwn.errors import ConfigError, MissingExtraError
from crwn.experiments import make_config, run
from crwn.experiments.config import RunConfig
from crwn.insight import collect, make_atlas, write_atlas
from crwn.report.page import write_page
from crwn.report.records import read_groups

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from invented_records import write_record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARTEFACTS = Path(__file__).resolve().parents[2] / "test-artefacts"
RUNS: list[dict[str, object]] = [
    {"method": "neuromodnet", "size": "64", "seed": 0},
    {"method": "neuromodnet", "size": "64", "seed": 1},
    {"method": "neuromodnet", "size": "64", "settings": {"modulation": "local"}},
    {"method": "flynet", "size": "2d"},
    {"method": "finetune", "size": "32", "matrix": True},
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few small real runs, one of them with an atlas."""
    base = tmp_path_factory.mktemp("records")
    for fields in RUNS:
        config = make_config(scenario="rotated-digits", tasks=4, batches=60, threads=1, **fields)
        run(config, config.folder(base))
    first = make_config(scenario="rotated-digits", tasks=4, batches=60, **RUNS[0]).folder(base)
    write_atlas(make_atlas(collect(first), permutations=99), base / "atlas")
    return base


@pytest.fixture(scope="module")
def page_file(records: Path) -> Path:
    out = records / "report.html"
    done = CliRunner().invoke(app, ["report", str(records)])
    assert done.exit_code == 0, done.output
    assert "5 runs" in done.stdout
    return out


class Watched:
    """An open page with everything it complained of and asked for."""

    def __init__(self, browser: Browser, file: Path, *, width: int = 1280, scheme: str = "light") -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda asked: self.requests.append(asked.url))
        self.page.goto(file.resolve().as_uri())

    def scroll_through(self) -> None:
        """Figures are drawn as they come near the screen."""
        for plot in self.page.query_selector_all(".plot"):
            plot.scroll_into_view_if_needed()
            self.page.wait_for_function("plot => plot.querySelector('.main-svg') !== null", arg=plot)

    def column(self, place: int) -> list[str]:
        return [text.strip() for text in self.page.locator(f"tbody tr:visible td:nth-child({place})").all_inner_texts()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")]
)
def test_it_opens_without_errors_network_or_overflow(
    browser: Browser, page_file: Path, name: str, width: int, scheme: str
) -> None:
    watched = Watched(browser, page_file, width=width, scheme=scheme)
    watched.scroll_through()
    assert watched.problems == []
    assert [url for url in watched.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.locator(".plot").count() == page.locator(".plot > .plot-container").count() > 5
    assert page.locator("html").get_attribute("data-theme") == scheme
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"report-{name}.png", full_page=True)
    page.context.close()


@pytest.mark.slow
def test_it_sorts_filters_and_switches_colours(browser: Browser, page_file: Path) -> None:
    watched = Watched(browser, page_file)
    page = watched.page
    heads = page.locator("thead th button")
    heads.nth(2).click()  # accuracy
    accuracies = [float(text.split()[0]) for text in watched.column(3)]
    assert accuracies == sorted(accuracies, reverse=True)
    heads.nth(2).click()
    accuracies = [float(text.split()[0]) for text in watched.column(3)]
    assert accuracies == sorted(accuracies)
    heads.nth(0).click()
    names = watched.column(1)
    assert names == sorted(names, key=str.lower)
    assert page.locator("thead th").nth(0).get_attribute("aria-sort") == "ascending"

    page.locator("#search").fill("local")
    assert len(watched.column(1)) == 1
    assert page.locator("#count").inner_text() == "1 of 4"
    assert page.locator("#runs details:visible").count() == 1
    page.locator("#search").fill("")
    page.locator("#method").select_option("finetune")
    assert [name for name in watched.column(1) if "Fine-tuning" in name] == watched.column(1) != []
    page.locator("#method").select_option("")
    assert len(watched.column(1)) == 4

    plot = page.locator('.plot[data-figure="params-rotated-digits"]')
    plot.scroll_into_view_if_needed()
    entry = page.locator(".card", has=plot).locator(".legend button").first
    lines = plot.locator(".scatterlayer .trace")
    count = lines.count()
    assert entry.get_attribute("aria-pressed") == "true"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert lines.count() == count - 1
    entry.click()
    assert lines.count() == count

    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.locator("#runs summary").first.click()
    assert "crwn run rotated-digits" in page.locator("#runs details[open] code").first.inner_text()
    assert watched.problems == []
    page.context.close()


def test_it_holds_every_command_and_is_small(records: Path, page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert page_file.stat().st_size < 8_000_000
    for path in records.rglob("config.json"):
        assert json.loads(path.read_text())["command"] in text
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//', text)
    assert "default-src 'none'" in text


def test_seeds_are_one_group_and_forgetting_is_there(records: Path) -> None:
    groups = {group.label: group for group in read_groups(records)}
    assert len(groups["NeuroModNet 64"].runs) == 2
    assert groups["NeuroModNet 64"].spread is not None
    assert groups["NeuroModNet 64"].forgetting == 0
    assert (groups["Fine-tuning 32"].forgetting or 0) > 0
    assert groups["NeuroModNet 64"].short == "4 of 36 tasks, 60 batches"
    assert groups["NeuroModNet 64"].difference is None


def test_nothing_to_show_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no finished run"):
        write_page(tmp_path, tmp_path / "page.html")
    with pytest.raises(ConfigError, match="there is no folder"):
        write_page(tmp_path / "nowhere", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_missing_plotly_names_the_extra(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtraError, match=r'pip install "crwn\[report\]"'):
        write_page(records, tmp_path / "page.html")


def test_headlines_are_of_whole_runs_where_there_are_any(tmp_path: Path) -> None:
    for size, tasks, accuracy in (("4096", 2, 98.0), ("1024", None, 95.0)):
        config = RunConfig(scenario="rotated-mnist", method="neuromodnet", size=size, tasks=tasks)
        write_record(tmp_path, config, accuracy)
    write_page(tmp_path, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    best = re.search(r"([\d.]+%)</\w+>\s*<\w+[^>]*>best average accuracy", text)
    assert best is not None
    assert best[1] == "95.00%"
