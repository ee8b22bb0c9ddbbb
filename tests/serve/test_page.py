"""The web page in a real Chromium: draw, predict, learn, forget; no errors, no requests to other hosts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

from crwn.contexts import Context
from crwn.data.tables import table_of_objects
from crwn.learner import Learner
from crwn.models import NeuroModNet
from serving import Array, Running, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
AROUND = [(0.5 + 0.22 * math.sin(i * math.pi / 6), 0.5 - 0.34 * math.cos(i * math.pi / 6)) for i in range(13)]
STROKES = {
    "0": [AROUND],
    "4": [[(0.45, 0.15), (0.3, 0.55), (0.72, 0.55)], [(0.6, 0.35), (0.58, 0.85)]],
    "7": [[(0.3, 0.2), (0.7, 0.2), (0.55, 0.5), (0.45, 0.85)]],
}


def predicted_by(page: Page, task: str) -> Any:
    """The element with the label that a task predicts."""
    name = page.locator(".name").get_by_text(task, exact=True)
    return page.locator("#predictions li").filter(has=name).locator(".label")


class Opened:
    """A page with its console errors and the URLs it requested."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requested: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self._log(line))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready=yes]", timeout=60_000)

    def _log(self, line: Any) -> None:
        # Chromium also logs error responses, which the page shows.
        if line.type == "error" and "the server responded with a status of 4" not in line.text:
            self.errors.append(line.text)

    def draw(self, strokes: list[list[tuple[float, float]]]) -> None:
        box = self.page.locator("#pad").bounding_box()
        assert box is not None
        for stroke in strokes:
            places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
            self.page.mouse.move(*places[0])
            self.page.mouse.down()
            for place in places[1:]:
                self.page.mouse.move(*place, steps=6)
            self.page.mouse.up()


@pytest.fixture
def opened(browser: Browser, service: Running) -> Iterator[Opened]:
    made = Opened(browser, service.address)
    yield made
    assert made.errors == []
    assert all(url.startswith(service.address) or url.startswith("blob:") for url in made.requested)
    made.context.close()


@pytest.mark.parametrize("digit", sorted(STROKES))
def test_draw_and_predict(opened: Opened, digit: str) -> None:
    page = opened.page
    opened.draw(STROKES[digit])
    page.wait_for_selector("#predictions li.best")
    expect(predicted_by(page, "upright")).to_have_text(digit)
    expect(page.locator("#predictions li")).to_have_count(2)
    page.wait_for_function(
        """() => document.querySelector('#verdict').textContent.includes(
            document.querySelector('#predictions li.best .name').textContent)"""
    )
    page.click("#clear")
    expect(page.locator("#predictions li")).to_have_count(0)


def test_ink_is_scaled_like_most_tasks_not_like_the_first(
    browser: Browser, service: Running, learner: Learner, digits: tuple[Array, Array]
) -> None:
    x, y = digits
    learner.learn("inverted", 16 - x, y, batches=100, progress=False)
    assert learner.tasks[0] == "inverted"
    made = Opened(browser, service.address)
    made.draw(STROKES["0"])
    expect(predicted_by(made.page, "upright")).to_have_text("0")
    expect(made.page.locator("#verdict")).to_contain_text("Inferred task: upright")
    made.context.close()


def test_keyboard_alone(opened: Opened) -> None:
    page = opened.page
    page.focus("#pad")
    page.keyboard.press("7")
    page.wait_for_selector("#predictions li.best")
    page.keyboard.press("Delete")
    expect(page.locator("#predictions li")).to_have_count(0)
    page.keyboard.press("Space")
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    page.wait_for_selector("#predictions li.best")
    page.focus("#map circle")
    page.keyboard.press("Enter")
    page.wait_for_selector("#selected strong")
    page.focus("#task-rows button.name")
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.selected-task")


def test_a_digit_typed_anywhere_is_drawn_on_the_pad(opened: Opened) -> None:
    opened.page.keyboard.press("7")
    opened.page.wait_for_selector("#predictions li.best")


def test_a_row_of_a_table_is_typed(browser: Browser) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    learner = Learner(NeuroModNet(in_features=3, hidden=(64,), classes=2, seed=0))
    learner.learn("sign", rows, np.where(rows[:, 0] > 0, "plus", "minus"), batches=100, progress=False)
    with running(learner) as served:
        made = Opened(browser, served.address)
        page = made.page
        page.fill("#row-text", "2.5, 0.1")
        expect(page.locator("#verdict")).to_contain_text("2 of 3 numbers so far")
        page.fill("#row-text", "2.5, 0.1, -0.3")
        expect(page.locator("#predictions li.best .label")).to_have_text("plus")
        page.fill("#row-text", "-2.5, 0.1, -0.3")
        expect(page.locator("#predictions li.best .label")).to_have_text("minus")
        page.fill("#row-text", "1, 2, 3, 4")
        expect(page.locator("#verdict")).to_contain_text("4 numbers, the model takes 3")
        expect(page.locator("#predictions li")).to_have_count(0)
        page.fill("#row-text", "many")
        expect(page.locator("#verdict")).to_contain_text("A row is numbers")
        assert made.errors == []
        made.context.close()


@pytest.fixture(scope="module")
def visits() -> Learner:
    """A table with text and gaps, learned as one label, several labels and a number per row."""
    random = np.random.default_rng(0)
    age, city = random.integers(18, 80, 200), random.choice(["Bern", "Chur"], 200)
    rows = [{"age": None if at % 19 == 0 else int(age[at]), "city": city[at]} for at in range(200)]
    table = table_of_objects(rows, "visits")
    learner = Learner(NeuroModNet(in_features=8, hidden=(256,), classes=4, seed=0))
    old, chur = age > 50, city == "Chur"
    learner.learn("buys", table, np.where(chur, "yes", "no"), batches=120, progress=False)
    tags = [[name for name, has in (("old", a), ("far", b)) if has] for a, b in zip(old, chur, strict=True)]
    learner.learn("tags", table, tags, kind="multilabel", batches=200, progress=False)
    learner.learn("sum", table, 3.0 * age + 100 * chur, kind="regression", batches=200, validation=0.2, progress=False)
    return learner


def test_a_row_is_filled_in_by_column_name(browser: Browser, visits: Learner, tmp_path: Path) -> None:
    with running(visits) as served:
        made = Opened(browser, served.address)
        page = made.page
        expect(page.locator("#row-line")).to_be_hidden()
        page.get_by_label("age", exact=True).fill("70")
        page.get_by_label("city", exact=True).fill("Chur")
        expect(predicted_by(page, "buys")).to_have_text("yes")
        expect(predicted_by(page, "tags")).to_have_text("far, old")
        number = float(predicted_by(page, "sum").inner_text())
        assert number == pytest.approx(310, abs=40)
        expect(page.locator("#verdict strong")).to_have_text("buys")
        (tmp_path / "one.csv").write_text('id;city;age\n"a;b";Bern;20\n')
        page.set_input_files("#row-file", tmp_path / "one.csv")
        expect(page.get_by_label("age", exact=True)).to_have_value("20")
        expect(predicted_by(page, "buys")).to_have_text("no")
        expect(predicted_by(page, "tags")).to_have_text("no label")
        (tmp_path / "other.csv").write_text("age,town\n20,Bern\n")
        page.set_input_files("#row-file", tmp_path / "other.csv")
        expect(page.locator("#verdict")).to_contain_text("other.csv has no column city; it has age, town")
        row = page.locator("#task-rows tr[data-task=sum]")
        expect(row).to_contain_text("a number")
        expect(row).to_contain_text("R² 0.")
        expect(page.locator("#task-rows tr[data-task=tags]")).to_contain_text("any of far, old")
        assert made.errors == []
        made.context.close()


def test_a_text_is_pasted_although_its_row_could_be_a_drawing(browser: Browser) -> None:
    texts = [f"please pay invoice number {i}" if i % 2 else f"lunch with my cat at {i % 12}" for i in range(80)]
    learner = Learner(NeuroModNet(in_features=256, hidden=(128,), classes=2, seed=0))
    with running(learner) as served:
        made = Opened(browser, served.address)
        page = made.page
        expect(page.locator("#pad-column")).to_be_visible()
        learner.learn("mail", texts, ["chat", "bill"] * 40, batches=60, progress=False)
        page.reload()
        page.wait_for_selector("body[data-ready=yes]")
        expect(page.locator("#pad-column")).to_be_hidden()
        page.get_by_label("text", exact=True).fill("the overdue invoice was not paid")
        expect(page.locator("#predictions li.best .label")).to_have_text("bill")
        page.keyboard.press("Tab")
        page.keyboard.press("7")  # draws nothing
        expect(page.locator("#predictions li.best .label")).to_have_text("bill")
        assert made.errors == []
        made.context.close()


def test_columns_of_pixels_are_drawn(browser: Browser, digits: tuple[Array, Array]) -> None:
    rows, labels = digits
    names = [f"pixel{i}" for i in range(64)]
    table = table_of_objects([dict(zip(names, row, strict=True)) for row in rows.reshape(-1, 64).tolist()], "pixels")
    learner = Learner(NeuroModNet(in_features=64, hidden=(128,), classes=10, seed=0))
    learner.learn("pixels", table, labels, batches=20, progress=False)
    with running(learner) as served:
        made = Opened(browser, served.address)
        expect(made.page.locator("#pad-column")).to_be_visible()
        assert made.errors == []
        made.context.close()


@pytest.mark.parametrize(("kind", "labels"), [("regression", "30"), ("multilabel", "red|round")])
def test_other_kinds_are_learned_on_the_page(
    browser: Browser, visits: Learner, tmp_path: Path, kind: str, labels: str
) -> None:
    lines = ["id,age,city,target", *(f"{i},{i % 60},Bern,{labels if i % 2 else labels[:3]}" for i in range(40))]
    (tmp_path / f"{kind}.csv").write_text("\n".join(lines))
    with running(visits) as served:
        made = Opened(browser, served.address)
        page = made.page
        page.set_input_files("#learn-file", tmp_path / f"{kind}.csv")
        page.select_option("#learn-kind", kind)
        page.fill("#learn-label", "target")
        page.fill("#learn-ignore", "id")
        page.fill("#learn-batches", "20")
        page.click("#learn-start")
        expect(page.locator("#learn-status")).to_contain_text(f"{kind} was learned")
        info = visits.context(kind).info
        assert (info.kind, info.columns) == (kind, ("age", "city"))
        visits.forget(kind)
        made.context.close()


def test_the_pad_names_digits_only_where_tasks_are_of_digits(opened: Opened, browser: Browser) -> None:
    expect(opened.page.locator("#playground-hint")).to_contain_text("Draw a digit")
    clothes = Learner(NeuroModNet(in_features=64, hidden=(16,), classes=2, seed=0))
    rows = np.random.default_rng(0).random((20, 64), dtype=np.float32)
    clothes.learn("clothes", rows, ["shirt", "shoe"] * 10, batches=2, progress=False)
    with running(clothes) as served:
        made = Opened(browser, served.address)
        expect(made.page.locator("#playground-hint")).to_contain_text("Open or draw an image")
        made.context.close()


def test_learn_and_forget(opened: Opened, learner: Learner, digits: tuple[Array, Array], tmp_path: Path) -> None:
    x, y = digits
    lines = [",".join([f"p{i}" for i in range(64)] + ["label"])]
    for row, label in zip(x[:400], y[:400], strict=True):
        lines.append(",".join([*(f"{value:g}" for value in 16 - row), str(label)]))
    (tmp_path / "inverted.csv").write_text("\n".join(lines))
    page = opened.page
    page.set_input_files("#learn-file", tmp_path / "inverted.csv")
    assert page.input_value("#learn-name") == "inverted"
    page.fill("#learn-name", "inverted / <b>digits</b>")
    page.fill("#learn-batches", "60")
    page.click("#learn-start")
    expect(page.locator("#learn-status")).to_contain_text("was learned")
    assert "accuracy on held-out rows" in page.inner_text("#learn-status")
    name = "inverted / <b>digits</b>"
    assert name in learner.tasks
    page.wait_for_selector(f"#task-rows tr[data-task='{name}']")
    expect(page.locator("#map circle")).to_have_count(3)
    page.click(f"#task-rows button[aria-label='Forget {name}']")
    page.click("#confirm button[value=no]")
    assert name in learner.tasks
    page.click(f"#task-rows button[aria-label='Forget {name}']")
    page.click("#confirm button[value=yes]")
    expect(page.locator("#task-rows tr")).to_have_count(2)
    assert learner.tasks == ["mirrored", "upright"]


def test_a_bad_file_is_an_error_on_the_page(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    page = opened.page
    page.set_input_files("#learn-file", tmp_path / "bad.csv")
    page.click("#learn-start")
    page.wait_for_selector("#learn-status.failed")
    assert "label" in page.inner_text("#learn-status")


def test_cancel(opened: Opened, learner: Learner, digits: tuple[Array, Array], tmp_path: Path) -> None:
    x, y = digits
    np.savez(tmp_path / "long.npz", x=x, y=y)
    page = opened.page
    page.set_input_files("#learn-file", tmp_path / "long.npz")
    page.fill("#learn-batches", "200000")
    page.click("#learn-start")
    expect(page.locator("#learn-bar-label")).to_contain_text("loss")
    page.click("#learn-cancel")
    expect(page.locator("#learn-status")).to_contain_text("nothing was stored")
    assert learner.tasks == ["mirrored", "upright"]


def test_drop_an_image_and_a_row(opened: Opened, digits: tuple[Array, Array], tmp_path: Path) -> None:
    from PIL import Image, ImageDraw

    picture = Image.new("L", (200, 200), 255)
    corners = [(200 * x, 200 * y) for x, y in STROKES["7"][0]]
    ImageDraw.Draw(picture).line(corners, fill=0, width=26, joint="curve")
    picture.save(tmp_path / "seven.png")
    page = opened.page
    page.set_input_files("#drop-file", tmp_path / "seven.png")
    expect(predicted_by(page, "upright")).to_have_text("7")
    x, y = digits
    (tmp_path / "row.csv").write_text(",".join(f"{value:g}" for value in x[3]))
    page.set_input_files("#drop-file", tmp_path / "row.csv")
    expect(predicted_by(page, "upright")).to_have_text(str(y[3]))


def test_search_and_pages(browser: Browser, service: Running, learner: Learner) -> None:
    kept = learner.context("upright")
    learner.bank.put_many(Context(f"many {i:03}", kept.tensors, kept.classes, kept.model) for i in range(200))
    made = Opened(browser, service.address)
    page = made.page
    assert page.locator("#task-rows tr").count() == 12
    page.click("#next")
    expect(page.locator("#page-line")).to_have_text("13 to 24")
    page.click("#previous")
    expect(page.locator("#page-line")).to_have_text("1 to 12")
    page.fill("#search", "many 19")
    expect(page.locator("#task-rows tr")).to_have_count(10)
    page.fill("#search", "nothing such")
    expect(page.locator("#task-rows tr")).to_have_count(0)
    assert page.locator("#map circle").count() == 202
    assert made.errors == []
    made.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1360])
def test_fits_and_is_named(browser: Browser, service: Running, width: int, scheme: Any) -> None:
    made = Opened(browser, service.address, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = made.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, a, canvas, svg, meter, progress')].filter((e) =>
            !e.closest('[hidden]') && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.getAttribute('alt')
            && !(e.labels && e.labels.length)).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    made.context.close()


def test_token_and_read_only(browser: Browser, learner: Learner) -> None:
    with running(learner, token="a-long-token") as served:
        made = Opened(browser, served.address)
        made.page.click("#task-rows button[aria-label='Forget mirrored']")
        made.page.click("#confirm button[value=yes]")
        expect(made.page.locator("#page-line")).to_contain_text("token")
        made.page.fill("#token", "a-long-token")
        made.page.click("#task-rows button[aria-label='Forget mirrored']")
        made.page.click("#confirm button[value=yes]")
        expect(made.page.locator("#task-rows tr")).to_have_count(1)
        made.context.close()
    assert learner.tasks == ["upright"]
    with running(learner, read_only=True) as served:
        made = Opened(browser, served.address)
        assert made.page.is_visible("#learn-closed")
        assert not made.page.is_visible("#learn-form")
        assert made.page.locator("text=Forget").filter(visible=True).count() == 0
        made.context.close()
