"""The page with a model of images, in a real Chromium: a photo is predicted, a map shows where the context looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from crwn import ImageFlyNet, Learner
from serving import Array, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


def striped(across: bool, count: int) -> Array:
    """Photos of stripes with noise, uint8 `[count, 3, 16, 16]`."""
    random = np.random.default_rng(int(across))
    line = np.where(np.arange(16) // 2 % 2, 200, 40)
    picture = np.broadcast_to(line if across else line[:, None], (16, 16))
    return np.clip(picture + random.normal(0, 15, (count, 3, 16, 16)), 0, 255).astype(np.uint8)


def test_a_photo_is_predicted_and_shows_where_the_context_looks(browser: Browser, tmp_path: Path) -> None:
    x = np.concatenate([striped(False, 30), striped(True, 30)])
    learner = Learner(ImageFlyNet((3, 16, 16), 2, seed=0, filters=32))
    learner.learn("stripes", x, ["lying"] * 30 + ["standing"] * 30, batches=40, progress=False)
    for name, image in (("lying", striped(False, 1)[0]), ("standing", striped(True, 1)[0])):
        Image.fromarray(image.transpose(1, 2, 0)).resize((64, 64), Image.Resampling.NEAREST).save(
            tmp_path / f"{name}.png"
        )
    with running(learner) as served:
        context = browser.new_context()
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(served.address)
        page.wait_for_selector("body[data-ready=yes]", timeout=60_000)
        expect(page.locator("#drop-text")).to_have_text("Drop a photo here, or choose one")
        for name in ("lying", "standing"):
            page.set_input_files("#row-file", str(tmp_path / f"{name}.png"))
            expect(page.locator("#predictions li.best .label")).to_have_text(name)
            expect(page.locator("#look-text")).to_contain_text(f"Where stripes looks: red speaks for {name}")
            drawn = page.evaluate(
                """() => { const look = document.querySelector('#look');
                const data = look.getContext('2d').getImageData(0, 0, look.width, look.height).data;
                return [look.width, look.height, Math.max(...data.filter((_, i) => i % 4 === 3))]; }"""
            )
            assert drawn[:2] == [16, 16]
            assert drawn[2] > 100
        assert errors == []
        context.close()
