"""What FlyNet sees: filters as images, amplified filters, and maps that find what a prediction rests on."""

from pathlib import Path

import pytest
import torch

from crwn import ImageFlyNet, Learner
from crwn.insight.collection import collect
from crwn.insight.eye import amplified, energy, filter_tiles, gaze
from crwn.insight.eye_pictures import seen_pictures
from crwn.layers import context_tensors

MODEL = ImageFlyNet((3, 16, 16), 2, seed=0, filters=32)
LAYERS = ImageFlyNet((3, 16, 16), 2, seed=0, filters=32, colours=4, spread=0.7, second=8, symmetric=True)


def context(**changed: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in context_tensors(MODEL).items()} | changed


def test_filters_are_images_from_0_to_1() -> None:
    tiles = filter_tiles(MODEL.encoder)
    assert [tile.shape for tile in tiles] == [(4, 4, 3)] * 16 + [(8, 8, 3)] * 16
    assert all(tile.min() >= 0 and tile.max() <= 1 for tile in tiles)
    assert all(max(tile.max() - 0.5, 0.5 - tile.min()) == pytest.approx(0.5) for tile in tiles)


def test_a_filter_with_twice_the_gain_is_amplified_twice() -> None:
    v = context()["decoder.v"]
    first, second = v[: 2 * 9 * 16].view(2, 9, 16), v[2 * 9 * 16 :].view(2, 9, 16)
    first[:, :, 5] *= 2
    second[:, :, 3] *= 0.5
    use = amplified(MODEL, context(**{"decoder.v": v}))
    assert use[5] == pytest.approx(2.0)
    assert use[16 + 3] == pytest.approx(0.5)
    assert float(use.median()) == pytest.approx(1.0)


def test_filters_of_two_layers_are_amplified_by_the_gains_of_their_own_features() -> None:
    v = context_tensors(LAYERS)["decoder.v"].detach().clone()
    v[: 2 * 9 * 16].view(2, 9, 16)[:, :, 5] *= 2
    use = amplified(LAYERS, dict(context_tensors(LAYERS)) | {"decoder.v": v})
    assert use.shape == (32,)
    assert use[5] == pytest.approx(2.0)
    assert float(use.median()) == pytest.approx(1.0)


def test_gains_that_cancel_each_other_are_no_use_of_a_filter() -> None:
    """With several gains a feature, what counts is the sum of what they do, not how large they are."""
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16, gains=2)
    start = dict(context_tensors(model))
    v = start["decoder.v"].detach().clone().double()
    frozen = model.decoder.frozen.dense().double().view(2, 2, -1)  # [classes, gains, features]
    difference = frozen[0] - frozen[1]
    v.view(2, -1)[0] += 1000 * difference[1]
    v.view(2, -1)[1] -= 1000 * difference[0]
    use = amplified(model, start | {"decoder.v": v})
    assert torch.allclose(use, torch.ones(16, dtype=torch.float64), atol=1e-6)


def test_the_gaze_adds_up_to_the_evidence_of_the_features() -> None:
    """Without roots the logits are linear in the responses, so the map adds up to their part of the evidence."""
    model = ImageFlyNet((1, 12, 12), 3, seed=1, filters=16, root=False)
    tensors = dict(context_tensors(model))
    x = torch.randn(2, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        part = model.head.forward_with(tensors, model.encode(x)) - model.head.forward_with(
            tensors, model.encoder.standardized([torch.zeros(1, 2, *block) for block in model.encoder.blocks])
        )
        chosen = model(x).argmax(dim=1)
    for at in range(2):
        others = (part[at].sum() - part[at, chosen[at]]) / 2
        assert float(gaze(model, tensors, x)[at].sum()) == pytest.approx(float(part[at, chosen[at]] - others), rel=1e-3)


@pytest.mark.parametrize("model", [MODEL, LAYERS], ids=["one layer", "two layers"])
def test_nothing_is_seen_in_a_flat_image_and_something_at_an_edge(model: ImageFlyNet) -> None:
    x = torch.zeros(2, 3, 16, 16)
    x[1, :, :, 8:] = 1.0
    found = energy(model.encoder, x)
    assert float(found[0].abs().max()) == 0.0
    assert float(found[1, :, 6:10].sum()) > float(found[1, :, :4].sum())
    looked = gaze(model, dict(context_tensors(model)), x)
    assert looked.shape == (2, 16, 16)
    assert float(looked[0].abs().max()) == 0.0
    assert float(looked[1].abs().max()) > 0.0


def test_pictures_of_any_size_and_the_atlas(tmp_path: Path) -> None:
    assert seen_pictures(ImageFlyNet((1, 60, 20), 2, seed=0, filters=16)).shape == (3, 1, 60, 20)
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16)
    folder = tmp_path / "photos.crwn"
    random = torch.Generator().manual_seed(0)
    with Learner(model, bank=folder) as learner:
        for name in "abc":
            x = torch.randint(0, 256, (12, 3, 16, 16), dtype=torch.uint8, generator=random)
            learner.learn(name, x, torch.arange(12) % 2, batches=3, progress=False)
    from crwn.insight.atlas import make_atlas, write_atlas

    written = {path.name for path in write_atlas(make_atlas(collect(folder)), tmp_path / "atlas")}
    assert {"filters.png", "amplified.png", "gaze.svg"} <= written
