"""`crwn learn --backbone` and `--text`: photos and mails learned, predicted, and what is refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import crwn as package
from command_line import Crwn


def photos(root: Path, *, seed: int = 0, count: int = 12) -> Path:
    """Folders of noise photos that are mostly red or mostly blue, of different sizes."""
    random = np.random.default_rng(seed)
    for label, channel in (("red", 0), ("blue", 2)):
        (root / label).mkdir(parents=True)
        for at in range(count):
            pixels = random.integers(0, 100, (40 + at, 50, 3), dtype=np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(root / label / f"{at}.jpg")
    return root


def test_photos_are_learned_and_predicted(crwn: Crwn, tmp_path: Path) -> None:
    model, data = tmp_path / "photos.crwn", photos(tmp_path / "data")
    facts = crwn("learn", model, "colours", data, "--backbone", "efficientnet-lite0", "--image-size", "32", "--json")
    assert facts["params_per_task"] == 1281
    record = json.loads((model / "model.json").read_text())
    assert record["config"]["backbone"] == "efficientnet-lite0"
    assert record["config"]["size"] == 32
    assert record["config"]["gains"] == 1
    assert not (model / "weights.safetensors").exists()
    wide = tmp_path / "wide.crwn"
    crwn("learn", wide, "colours", data, "--backbone", "efficientnet-lite0", "--image-size", "32", "--classes", "4")
    assert json.loads((wide / "model.json").read_text())["config"]["gains"] == 3
    assert ", 2 classes, closed form in " in crwn("learn", model, "again", data, "--backbone", "efficientnet-lite0")
    other = crwn("learn", model, "larger", data, "--image-size", "64", fails=True)
    assert "photos.crwn was made with --image-size 32, not 64" in other
    new = photos(tmp_path / "new", seed=5, count=3)
    found = crwn("predict", model, new, "--task", "colours", "--json")
    assert found["accuracy"] == 100.0
    with package.Learner.load(model) as learner:
        assert learner.kind == "backbone"
        assert len(learner.tasks) == 2


@pytest.mark.parametrize("depth", ["last", "all"])
def test_a_depth_modulates_layers_of_the_backbone(crwn: Crwn, tmp_path: Path, depth: str) -> None:
    model, data = tmp_path / "photos.crwn", photos(tmp_path / "data")
    learn = ("learn", model, "colours", data, "--image-size", "32", "--epochs", "1")
    facts = crwn(*learn, "--backbone", "efficientnet-lite0", "--depth", depth, "--json")
    assert facts["batches"] == 1
    assert facts["params_per_task"] == {"last": 2958, "all": 12_413}[depth]
    found = crwn("predict", model, photos(tmp_path / "new", seed=5, count=3), "--task", "colours", "--json")
    assert found["accuracy"] == 100.0
    assert "was made with --depth" in crwn("learn", model, "again", data, "--depth", "head", fails=True)
    crwn("learn", model, "colours", data, "--replace", "--epochs", "1")


def test_a_text_column_is_learned_and_predicted(crwn: Crwn, tmp_path: Path) -> None:
    bills = ["please pay the invoice {}", "your payment {} is overdue", "the bill number {} is attached"]
    chats = ["see you at lunch at {}", "the kids play football on {}", "my cat slept for {} hours"]
    rows = [
        f"{text.format(n)},{label}"
        for n in range(20)
        for label, group in (("bill", bills), ("chat", chats))
        for text in group
    ]
    data = tmp_path / "mails.csv"
    data.write_text("\n".join(["body,label", *rows]), encoding="utf-8")
    model = tmp_path / "mail.crwn"
    crwn("learn", model, "kind", data, "--text", "body", "--batches", "60")
    new = tmp_path / "new.csv"
    new.write_text("body\nthe invoice and the overdue payment\nlunch with the kids and the cat\n")
    assert crwn("predict", model, new, "--json")["predictions"] == ["bill", "chat"]


def test_what_is_refused(crwn: Crwn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = photos(tmp_path / "data", count=3), tmp_path / "m.crwn"
    learn = ("learn", model, "colours", data)
    assert 'unknown backbone "resnet"' in crwn(*learn, "--backbone", "resnet", fails=True)
    assert "--backbone wordllama is for texts" in crwn(*learn, "--backbone", "wordllama", fails=True)
    assert "--model is for networks without a backbone" in crwn(
        *learn, "--backbone", "efficientnet-lite0", "--model", "flynet", fails=True
    )
    assert "--depth deep: choose one of head, last, all" in crwn(*learn, "--depth", "deep", fails=True)
    assert "--depth last is for models on a backbone" in crwn(*learn, "--depth", "last", fails=True)
    (data / "red" / "note.jpg").write_text("no photo")
    assert "red/note.jpg" in crwn(*learn, "--backbone", "efficientnet-lite0", fails=True)
    rows = tmp_path / "rows.csv"
    rows.write_text("a,label\n1,x\n2,y\n3,x\n")
    assert "takes images, the data has rows of shape (1,)" in crwn(
        "learn", model, "t", rows, "--backbone", "efficientnet-lite0", fails=True
    )
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    assert 'pip install "crwn[vision]"' in crwn(*learn, "--backbone", "efficientnet-lite0", fails=True)
    assert not model.exists()
