"""Texts over HTTP and on the page: a column of sentences has a field, although 256 inputs could be a drawn image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from crwn import Learner, NeuroModNet
from crwn.models.backbones.text import wordllama
from serving import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

BILLS = ["please pay the invoice {}", "your payment {} is overdue", "the bill number {} is attached"]
CHATS = ["see you at lunch at {}", "the kids play football on {}", "my cat slept for {} hours"]


def test_a_text_is_pasted_and_predicted(browser: Browser) -> None:
    texts = [text.format(number) for number in range(12) for text in (*BILLS, *CHATS)]
    learner = Learner(NeuroModNet(wordllama().features, (64,), 2, seed=0))
    learner.learn("mail", texts, (["bill"] * 3 + ["chat"] * 3) * 12, batches=60, progress=False)
    with running(learner) as served:
        with httpx.Client(base_url=served.address, timeout=120) as http:
            row = {"text": "lunch with the kids and the cat"}
            assert http.post("/v1/predict", json={"rows": [row], "task": "mail"}).json()["labels"] == ["chat"]
        context = browser.new_context()
        page = context.new_page()
        page.goto(served.address)
        page.wait_for_selector("body[data-ready=yes]", timeout=60_000)
        expect(page.locator("#pad")).to_be_hidden()
        for text, label in (("the invoice and the overdue payment", "bill"), ("football at lunch", "chat")):
            page.fill("#field-0", text)
            expect(page.locator("#predictions li.best .label")).to_have_text(label)
        context.close()
