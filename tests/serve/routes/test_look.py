"""Where a context looks, over HTTP: a map for every image, and one line for what it cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from crwn import ImageFlyNet, Learner, NeuroModNet
from serving import running

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 3, 16, 16), dtype=np.uint8)


@pytest.fixture(scope="module", params=[{}, {"colours": 4, "spread": 0.7, "second": 8, "symmetric": True}])
def photos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16, **request.param)
    learner = Learner(model, bank=tmp_path_factory.mktemp("m") / "p.crwn")
    learner.learn("pets", IMAGES, ["cat", "dog"] * 10, batches=3, progress=False)
    with running(learner) as service, httpx.Client(base_url=service.address, timeout=60) as client:
        yield client
    learner.close()


def test_a_map_for_every_image_and_the_label_of_the_prediction(photos: httpx.Client) -> None:
    asked = {"rows": IMAGES[:3].reshape(3, -1).tolist(), "task": "pets"}
    found = photos.post("/v1/look", json=asked)
    assert found.status_code == 200, found.text
    assert np.array(found.json()["maps"]).shape == (3, 16, 16)
    assert np.abs(found.json()["maps"]).max() > 0
    assert found.json()["labels"] == photos.post("/v1/predict", json=asked).json()["labels"]


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"rows": IMAGES[:1].tolist(), "task": "cars"}, 404, "cars"),
        ({"rows": IMAGES[:1].tolist()}, 422, "name one task for all images"),
        ({"rows": [[1.0, 2.0]], "task": "pets"}, 422, "shape"),
        ({"rows": IMAGES[:17].tolist(), "task": "pets"}, 413, "17 images at once"),
    ],
)
def test_what_cannot_be_asked(photos: httpx.Client, asked: dict[str, object], status: int, message: str) -> None:
    found = photos.post("/v1/look", json=asked)
    assert (found.status_code, message in found.json()["error"]["message"]) == (status, True), found.text


def test_a_model_of_rows_has_no_maps(tmp_path: Path) -> None:
    with Learner(NeuroModNet(4, (8,), 2, seed=0), bank=tmp_path / "m.crwn") as learner:
        with running(learner) as service, httpx.Client(base_url=service.address, timeout=60) as client:
            found = client.post("/v1/look", json={"rows": [[0.0, 0.0, 0.0, 0.0]], "task": "a"})
        assert found.status_code == 422
        assert found.json()["error"]["code"] == "no_images"
