"""Photos over HTTP and on the page: image files as bodies, a dropped photo."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import expect
from torch import nn

from crwn import BackboneNet, ImageBackbone
from crwn.learner import Learner
from crwn.models import NeuroModNet
from serving import Running, refusal, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def photo(channel: int, *, seed: int, size: tuple[int, int] = (37, 51), form: str = "PNG") -> bytes:
    """A noise image that is mostly red, green or blue."""
    pixels = np.random.default_rng(seed).integers(0, 100, (*size, 3), dtype=np.uint8)
    pixels[..., channel] += 120
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


@pytest.fixture(scope="module")
def coloured() -> Iterator[Running]:
    torch.manual_seed(0)
    backbone = ImageBackbone(nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU()), name="small", size=16)
    learner = Learner(BackboneNet(backbone, 3, seed=0))
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 90)
    x = random.integers(0, 100, (90, 3, 16, 16)).astype(np.uint8)
    x[np.arange(90), y] += 120
    names = np.array(["red", "green", "blue"])[y]
    learner.learn("colour", x, names, method="exact", progress=False)
    learner.learn("warm", x, names == "red", method="exact", progress=False)
    with running(learner) as served:
        yield served


@pytest.mark.parametrize(("form", "kind"), [("PNG", "image/png"), ("JPEG", "image/jpeg")])
def test_an_image_file_is_a_row(coloured: Running, form: str, kind: str) -> None:
    body = photo(2, seed=3, form=form)
    with httpx.Client(base_url=coloured.address, timeout=120) as http:
        one = http.post("/v1/predict?task=colour", content=body, headers={"content-type": kind}).json()
        assert one["labels"] == ["blue"]
        both = http.post("/v1/predict?task=colour&task=warm", content=body, headers={"content-type": kind}).json()
        assert both["labels"] == ["blue", False]
        ranked = http.post("/v1/infer-task", content=body, headers={"content-type": kind}).json()
        assert {found["task"] for found in ranked["ranking"]} == {"colour", "warm"}


def test_what_is_no_photo_is_refused(coloured: Running) -> None:
    with httpx.Client(base_url=coloured.address, timeout=120) as http:
        for body in (b"no photo", photo(0, seed=1)[:60]):
            found = http.post("/v1/predict?task=colour", content=body, headers={"content-type": "image/png"})
            assert refusal(found)[0] == 422
            assert found.json()["error"]["message"].startswith("the body ")
        large = io.BytesIO()
        Image.new("1", (9000, 9000)).save(large, "PNG")
        found = http.post("/v1/predict?task=colour", content=large.getvalue(), headers={"content-type": "image/png"})
        assert found.status_code == 422
        assert "9000 x 9000 pixels" in found.json()["error"]["message"]


def test_a_model_without_images_refuses_photos() -> None:
    learner = Learner(NeuroModNet(4, (16,), 2, seed=0))
    learner.learn("t", np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10, batches=5, progress=False)
    with running(learner) as served, httpx.Client(base_url=served.address, timeout=120) as http:
        found = http.post("/v1/predict", content=photo(0, seed=1), headers={"content-type": "image/png"})
        assert refusal(found)[0] == 422
        assert "no task that was learned from images" in found.json()["error"]["message"]


@pytest.mark.slow
def test_a_photo_dropped_on_the_page(coloured: Running, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "blue.png"
    file.write_bytes(photo(2, seed=8))
    page = browser.new_page()
    page.set_default_timeout(120_000)
    page.goto(coloured.address)
    page.wait_for_selector("body[data-ready=yes]")
    expect(page.locator("#playground-hint")).to_contain_text("Drop a photo")
    page.set_input_files("#row-file", file)
    expect(page.locator("#predictions li")).to_have_count(2)
    expect(page.locator("#predictions")).to_contain_text("blue")
    expect(page.locator("#photo")).to_be_visible()
    wrong = tmp_path / "wrong.png"
    wrong.write_text("no photo")
    page.set_input_files("#row-file", wrong)
    expect(page.locator("#verdict")).to_contain_text("is no image")
    page.close()
