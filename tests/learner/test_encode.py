"""Frames and images in a learner: a task's encoding and image size are stored with it and applied to new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import crwn
from crwn.data import read_file, table_of_objects
from crwn.errors import DataError


def shop(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Customers whose city and membership decide what they do."""
    random = np.random.default_rng(seed)
    city, member = random.choice(["Bern", "Basel", "Genf"], rows), random.random(rows) > 0.5
    age = random.normal(40, 10, rows)
    age[random.random(rows) < 0.1] = np.nan
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, rows), unit="D")
    label = np.where((city == "Bern") == member, "buys", "leaves")
    return pd.DataFrame({"city": city, "age": age, "member": member, "day": day, "label": label})


def learned(width: int = 16) -> crwn.Learner:
    learner = crwn.Learner(crwn.NeuroModNet(in_features=width, hidden=(256, 256), classes=4, seed=0))
    frame = shop()
    learner.learn("shop", frame.drop(columns="label"), frame["label"], batches=150, progress=False)
    return learner


def test_a_frame_is_learned_and_predicted_by_column_name(tmp_path: Path) -> None:
    learner = learned()
    frame = shop(100, seed=1)
    labels = frame.pop("label").tolist()
    learner.save(tmp_path / "m.crwn")
    with crwn.Learner.load(tmp_path / "m.crwn") as loaded:
        found = loaded.predict(frame, task="shop").tolist()
        assert np.mean([a == b for a, b in zip(found, labels, strict=True)]) > 0.9
        turned: list[Any] = [
            frame[["day", "member", "age", "city"]],
            pl.from_pandas(frame),
            pa.Table.from_pandas(frame),
            table_of_objects(frame.to_dict("records")),
        ]
        for other in turned:
            assert loaded.predict(other, task="shop").tolist() == found
        assert loaded.predict(frame, task=["shop"] * 100).tolist() == found
        assert loaded.predict(frame, infer_task=True).tolist() == found
        assert loaded.context("shop").info.columns == ("city", "age", "member", "day")
        with pytest.raises(DataError, match=r"it lacks 'day' and has 'Day'"):
            loaded.predict(frame.rename(columns={"day": "Day"}), task="shop")


def test_the_label_may_be_a_column_of_the_frame() -> None:
    learner = crwn.Learner(crwn.NeuroModNet(in_features=16, hidden=(64,), classes=4, seed=0))
    frame = shop().rename(columns={"label": "what"})
    validation = (shop(50, seed=2).rename(columns={"label": "what"}), "what")
    context = learner.learn("t", pl.from_pandas(frame), "what", validation=validation, batches=50, progress=False)
    assert context.classes == ("buys", "leaves")
    assert context.info.accuracy is not None
    assert learner.predict(frame, task="t").shape == (240,), "the column of labels may be there"
    again = learner.learn("t", frame, resume=True, batches=5, progress=False)
    assert again.info.encoding == context.info.encoding


def test_tasks_with_other_columns_are_inferred_by_their_columns() -> None:
    learner = learned()
    frame = pd.DataFrame({"colour": ["red", "blue"] * 40, "size": np.arange(80.0), "label": [0, 1] * 40})
    learner.learn("paint", frame, "label", batches=60, progress=False)
    assert [one.task for one in learner.infer_task(frame)] == ["paint"]
    assert [one.task for one in learner.infer_task(shop(30))] == ["shop"]


def test_tasks_of_other_kinds_are_left_out_of_inference_whatever_their_encoding() -> None:
    learner = learned()
    whole = shop().dropna().drop(columns="label")  # without gaps, so that `age` has no flag
    learner.learn("spent", whole, np.arange(float(len(whole))), kind="regression", batches=5, progress=False)
    assert learner.context("spent").info.encoding != learner.context("shop").info.encoding
    assert [one.task for one in learner.infer_task(shop(30).dropna())] == ["shop"]


def test_a_frame_of_numbers_needs_no_encoding_and_fits_a_task_without_names() -> None:
    x = np.random.default_rng(0).normal(size=(80, 3)).astype("float32")
    learner = crwn.Learner(crwn.NeuroModNet(in_features=3, hidden=(64,), classes=2, seed=0))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    first = learner.learn("arrays", x, x[:, 0] > 0, batches=20, progress=False)
    second = learner.learn("frames", frame, x[:, 0] > 0, batches=20, progress=False)
    assert first.info.columns is None
    assert (second.info.columns, second.info.encoding) == (("a", "b", "c"), None)
    assert np.array_equal(learner.predict(frame, task="arrays"), learner.predict(x, task="arrays"))
    with pytest.raises(DataError, match="'a' of the frame is not only numbers, and the task was learned without"):
        learner.predict(frame.assign(a="x"), task="arrays")


def test_images_are_resized_to_what_the_task_learned(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        (tmp_path / "train" / name).mkdir(parents=True)
        for at in range(8):
            pixels = random.integers(low, low + 128, (8 + at % 3, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / name / f"{at}.png")
    (tmp_path / "new").mkdir()
    for at in range(6):
        Image.new("L", (30 + at, 20), 250 if at % 2 else 5).save(tmp_path / "new" / f"{at}.jpg")
    given = read_file(tmp_path / "train")
    learner = crwn.Learner(crwn.NeuroModNet(in_features=3 * 9 * 8, hidden=(128,), classes=2, seed=0))
    context = learner.learn("light", given.x, given.y, batches=60, progress=False)
    assert context.info.image == (3, 9, 8)
    photos = read_file(tmp_path / "new")
    assert photos.names == [f"{at}.jpg" for at in range(6)]
    assert learner.predict(photos.x).tolist() == ["dark", "light"] * 3
    alone = read_file(tmp_path / "new" / "3.jpg")
    assert (alone.names, learner.predict(alone.x).tolist()) == (["3.jpg"], ["light"])
