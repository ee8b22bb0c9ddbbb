"""ImageFlyNet: its formula patch by patch, sizes, copies, stacks, filters from images, and what it refuses."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call, vmap

from crwn import ImageFlyNet
from crwn.errors import ConfigError, DataError
from crwn.layers import context_tensors, learned_parameters
from crwn.layers.weights.filters import CONTRAST
from crwn.models import build, describe, fingerprint
from crwn.models.image_encoder import ROOT_FLOOR
from crwn.models.image_flynet import SIZES, best_image_structure, filters_for
from crwn.models.trained import trained_weights


def images(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("root", [True, False])
def test_features_are_the_formula_patch_by_patch(root: bool) -> None:
    model = ImageFlyNet((3, 11, 13), 4, seed=3, filters=16, sides=(4,), grid=2, threshold=0.7, stride=2, root=root)
    x = images(2, 3, 11, 13)
    encoder = model.encoder
    kernel = encoder.banks[0].get_buffer("weight").double().numpy()  # [4 * 4 * 3, filters], channels innermost
    down, across = encoder.places(4)
    assert (down, across) == (4, 5)
    y = np.zeros((2, down, across, 16))
    for n in range(2):
        for i in range(down):
            for j in range(across):
                patch = x[n, :, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4].double().numpy()
                normed = (patch - patch.mean()) / np.sqrt(patch.var() + CONTRAST)
                y[n, i, j] = np.moveaxis(normed, 0, -1).reshape(-1) @ kernel
    parts = []
    for sign in (1, -1):
        over = np.maximum(sign * y - 0.7, 0)
        # 5 places across make cells of 3 places that share the middle one, as adaptive pooling divides them.
        cells = [over[:, a : a + 2, b : b + 3].mean(axis=(1, 2)) for a in (0, 2) for b in (0, 2)]
        parts.append(np.stack(cells, axis=1))
    averages = np.stack(parts, axis=1).reshape(2, -1)
    if root:
        averages = np.sqrt(averages + 1e-3)
    expected = (averages - encoder.centre.numpy()) * encoder.scale.numpy()
    assert np.allclose(model.encode(x).numpy(), expected, atol=1e-4)
    assert np.allclose(encoder.plain(x).numpy(), expected, atol=1e-4)
    logits = (
        expected
        @ (model.decoder.alpha.item() * model.decoder.frozen.dense().numpy() * model.decoder.v.detach().numpy()).T
    )
    assert np.allclose(model(x).detach().numpy(), logits, atol=1e-3)


@pytest.mark.parametrize(("size", "filters"), [("5k", 272), ("10k", 544), ("20k", 1104), ("30k", 1664)])
def test_sizes_are_at_most_the_learned_parameters_they_name(size: str, filters: int) -> None:
    assert filters_for(size) == filters
    assert 0.97 * SIZES[size] < 2 * 9 * filters + 1 <= SIZES[size]


@pytest.mark.parametrize(("size", "gains"), [("5k", 1), ("10k", 4), ("20k", 4), ("30k", 4)])
def test_the_best_structure_of_a_size_is_within_it(size: str, gains: int) -> None:
    for classes in (2, 3, 5, 10):
        model = ImageFlyNet((3, 16, 16), classes, seed=0, **best_image_structure(size, classes))
        assert model.gains == min(gains, classes - 1)
        assert 0.92 * SIZES[size] < learned_parameters(model) <= SIZES[size]


def test_a_task_learns_one_number_per_feature_and_alpha() -> None:
    model = ImageFlyNet((1, 12, 12), 3, seed=0, filters=16)
    assert learned_parameters(model) == 16 * 2 * 9 + 1
    assert [name for name, _ in model.named_parameters()] == ["decoder.v", "decoder.alpha"]
    assert list(model.state_dict()) == ["decoder.v", "decoder.alpha"]  # no filter is stored


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 20, 33), (3, 100, 60), (4, 12, 12)])
def test_any_size_and_number_of_channels(shape: tuple[int, int, int]) -> None:
    model = ImageFlyNet(shape, 2, seed=0, filters=18, sides=(4, 6))
    x = images(3, *shape)
    features = model.encode(x)
    assert features.shape == (3, 18 * 2 * 9)
    assert torch.allclose(features, model.encoder.plain(x), atol=1e-4)


def test_the_same_seed_makes_the_same_network_and_another_seed_another() -> None:
    model = ImageFlyNet((3, 12, 12), 2, seed=5, filters=16)
    again = build(describe(model))
    x = images(4, 3, 12, 12)
    assert fingerprint(again) == fingerprint(model)
    assert torch.equal(again(x), model(x))
    other = ImageFlyNet((3, 12, 12), 2, seed=6, filters=16)
    assert other.encoder_fingerprint != model.encoder_fingerprint
    assert not torch.allclose(other.encode(x), model.encode(x))


def test_features_of_an_image_depend_neither_on_brightness_nor_on_the_batch() -> None:
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=32)
    x = images(40, 3, 16, 16)
    together = model.encode(x)
    assert torch.allclose(together[7:9], model.encode(x[7:9]), atol=1e-5)
    assert torch.allclose(together, model.encode(x + 3.0), atol=1e-3)


def test_constant_images_have_features_of_nothing() -> None:
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=32)
    flat = model.encode(torch.full((1, 3, 16, 16), 0.7))
    nothing = (ROOT_FLOOR**0.5 - model.encoder.centre) * model.encoder.scale
    assert torch.allclose(flat, nothing[None], atol=1e-3)


def test_bfloat16_features_of_a_bright_sky_are_those_of_float32() -> None:
    """Rounded weights that do not add up to 0 answer to brightness, and patches of low contrast enlarge that."""
    encoder = ImageFlyNet((3, 32, 32), 2, seed=0, filters=32).encoder
    random = torch.Generator().manual_seed(0)
    pixels = torch.full((4, 3, 32, 32), 240.0)
    pixels[:, :, 16:] = torch.randint(0, 256, (4, 3, 16, 32), generator=random).float()
    pixels[2:, :, :16] += torch.randint(-1, 2, (2, 3, 16, 32), generator=random)
    x = (pixels - 127.5) / 64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = encoder.encode(x)
    assert float((low - encoder.encode(x)).abs().max()) < 0.1


def test_mirrored_copies_and_mirrored_predictions() -> None:
    plain = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16)
    both = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16, mirror_predictions=True)
    x = images(3, 3, 16, 16)
    mirrored = x.flip(-1)
    assert plain.copies == 2
    assert torch.equal(plain.encode_copy(x, 1), plain.encode(mirrored))
    assert torch.allclose(both.encode(x), (plain.encode(x) + plain.encode(mirrored)) / 2, atol=1e-5)
    assert torch.allclose(both.encode(x), both.encode(mirrored), atol=1e-5)
    assert both.encoder_fingerprint != plain.encoder_fingerprint


def test_symmetric_features_are_learned_and_predicted_with() -> None:
    plain = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16)
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16, symmetric=True)
    x = images(3, 3, 16, 16)
    assert model.copies == 1
    assert torch.allclose(model.encode(x), (plain.encode(x) + plain.encode(x.flip(-1))) / 2, atol=1e-5)
    assert torch.equal(model.encode_copy(x, 0), model.encode(x))
    assert model.config["symmetric"]
    assert "symmetric" not in plain.config  # folders without it keep their fingerprint


def test_copies_of_another_kind_have_another_key() -> None:
    kinds: list[dict[str, Any]] = [{}, {"mirror": False}, {"shift": 1}, {"shift": 2}, {"symmetric": True}]
    kinds.append({"mirror": False, "mirror_predictions": True})
    models = [ImageFlyNet((1, 12, 12), 2, seed=0, filters=16, **settings) for settings in kinds]
    assert len({(model.encoder_fingerprint, model.copies_key) for model in models}) == len(models)


def test_colours_are_the_formula_pixel_by_pixel() -> None:
    model = ImageFlyNet((3, 12, 12), 2, seed=2, filters=16, colours=3, grid=2, root=False)
    bank = model.encoder.colours
    assert bank is not None
    x = images(2, 3, 12, 12)
    y = np.einsum("nchw,kc->nhwk", x.numpy(), bank.weight.numpy()) - bank.limit.numpy().reshape(-1)
    parts = [
        np.maximum(sign * y, 0)[:, a : a + 6, b : b + 6].mean(axis=(1, 2))
        for sign in (1, -1)
        for a in (0, 6)
        for b in (0, 6)
    ]
    encoder = model.encoder
    expected = (np.stack(parts, axis=1).reshape(2, -1) - encoder.centre[-24:].numpy()) * encoder.scale[-24:].numpy()
    assert encoder.features == model.features == 2 * (16 + 3) * 4
    assert np.allclose(model.encode(x)[:, -24:].numpy(), expected, atol=1e-4)
    assert torch.allclose(model.encode(x), encoder.plain(x), atol=1e-4)
    brighter = model.encode(x + 1.0)
    assert not torch.allclose(brighter[:, -24:], model.encode(x)[:, -24:], atol=0.1)  # what filters do not see


def test_colours_belong_to_the_seed_and_the_fingerprint() -> None:
    model = ImageFlyNet((3, 12, 12), 2, seed=5, filters=16, colours=8)
    again = build(describe(model))
    x = images(4, 3, 12, 12)
    assert torch.equal(again(x), model(x))
    assert list(model.state_dict()) == ["decoder.v", "decoder.alpha"]
    assert model.encoder_fingerprint != ImageFlyNet((3, 12, 12), 2, seed=5, filters=16).encoder_fingerprint
    grey = ImageFlyNet((1, 12, 12), 2, seed=5, filters=16, colours=8)
    assert torch.isfinite(grey.encode(torch.zeros(1, 1, 12, 12))).all()


def test_gains_are_the_same_decoder_on_repeated_features_and_reach_any_linear_classifier() -> None:
    model = ImageFlyNet((3, 12, 12), 3, seed=0, filters=16, gains=2)
    x = images(5, 3, 12, 12)
    h = model.encode(x)
    assert model.features == 288
    assert model.decoder.v.shape == (576,)
    expected = model.decoder(torch.cat([h, h], dim=-1))
    tensors = context_tensors(model)
    assert torch.allclose(model(x), expected, atol=1e-4)
    assert torch.allclose(model.head(h), expected, atol=1e-4)
    stack = {name: torch.stack([value, 2 * value]) for name, value in tensors.items()}
    mixed = model.head.forward_rows(stack, h[:2])
    assert torch.allclose(mixed[0], expected[0], atol=1e-4)
    assert torch.allclose(mixed[1], 4 * expected[1], atol=1e-3)  # alpha and v, each twice as large
    # Two gains for three classes: v solves for any wanted weights whose classes add up to 0.
    wanted = torch.randn(3, 288, generator=torch.Generator().manual_seed(0))
    wanted -= wanted.mean(dim=0)
    frozen = model.decoder.frozen.dense().view(3, 2, 288).permute(2, 0, 1)
    frozen = frozen - frozen.mean(dim=1, keepdim=True)
    v = torch.linalg.lstsq(frozen, wanted.T[..., None]).solution[..., 0].T.reshape(-1)
    logits = model.head.forward_with({"decoder.v": v, "decoder.alpha": torch.ones(())}, h)
    linear = h @ wanted.T
    assert torch.allclose(logits - logits.mean(dim=1, keepdim=True), linear, atol=2e-2)


@pytest.mark.parametrize(
    "settings", [{}, {"gains": 3, "colours": 4, "symmetric": True}, {"spread": 0.7, "second": 4, "symmetric": True}]
)
def test_stacked_contexts_rows_of_mixed_contexts_and_the_head_agree(settings: dict[str, Any]) -> None:
    model = ImageFlyNet((3, 12, 12), 4, seed=0, filters=16, **settings)
    random = torch.Generator().manual_seed(0)
    stack = {k: torch.randn(3, *t.shape, generator=random) for k, t in context_tensors(model).items()}
    x = torch.randn(3, 5, 3, 12, 12, generator=random)
    together = vmap(lambda tensors, rows: functional_call(model, tensors, (rows,)))(stack, x)
    mixed = model.forward_rows(stack, x[:, 0])
    for k in range(3):
        own = {name: value[k] for name, value in stack.items()}
        alone = functional_call(model, own, (x[k],))
        assert torch.allclose(together[k], alone, atol=1e-3)
        assert torch.allclose(mixed[k], alone[0], atol=1e-3)
        assert torch.allclose(model.head.call_with_context(own, model.encode(x[k])), alone, atol=1e-3)
    assert list(context_tensors(model.head)) == list(context_tensors(model))


def test_filters_from_images_are_kept_and_change_the_fingerprint() -> None:
    model = ImageFlyNet((3, 16, 16), 2, seed=0, filters=16)
    before, x = fingerprint(model), images(2, 3, 16, 16)
    assert not trained_weights(model)
    pictures = np.random.default_rng(0).integers(0, 256, size=(30, 3, 16, 16), dtype=np.uint8)
    model.learn_filters(pictures)
    assert fingerprint(model) != before
    assert sorted(trained_weights(model)) == [
        "encoder.banks.0.weight",
        "encoder.banks.1.weight",
        "encoder.centre",
        "encoder.scale",
    ]
    assert torch.allclose(model.encode(x), model.encoder.plain(x), atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"input_shape": (3, 7, 32)},
            "images of 7 x 32 pixels are too small for filters of 8 and a grid of 3: they need 10 x 10",
        ),
        ({"input_shape": (32, 32)}, r"\(channels, height, width\), got \(32, 32\)"),
        ({"size": "7k"}, 'no size "7k" for images: choose one of 5k, 10k, 20k, 30k'),
        ({"size": "5k", "filters": 32}, r"both size \(5k\) and filters \(32\)"),
        ({"gains": 0}, "gains must be at least 1, got 0"),
        ({"colours": -1, "filters": 16}, "colours must be 0 or their number, got -1"),
        ({"second": -1, "filters": 16}, "second must be 0 or their number, got -1"),
        ({"spread": -0.5, "filters": 16}, "spread must be 0 or the width of the windows in sides of a cell, got -0.5"),
        ({"filters": 0}, "filters must be at least 1, got 0"),
        ({"sides": ()}, r"sides of filters must be at least 2 pixels, got \(\)"),
    ],
)
def test_impossible_settings(arguments: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"input_shape": (3, 32, 32), **arguments}
    with pytest.raises(ConfigError, match=message):
        ImageFlyNet(classes=5, seed=0, **settings)  # type: ignore[arg-type]


def test_images_of_another_shape_and_useless_pictures_are_refused() -> None:
    model = ImageFlyNet((3, 12, 12), 2, seed=0, filters=16)
    with pytest.raises(DataError, match=r"images have shape \(1, 12, 12\), this model takes \(3, 12, 12\)"):
        model(torch.zeros(1, 1, 12, 12))
    with pytest.raises(DataError, match="all of one value or not finite"):
        model.learn_filters(np.zeros((3, 3, 12, 12), dtype=np.uint8))
    with pytest.raises(DataError, match=r"shape \(2, 1, 12, 12\), expected \[n, 3, h, w\]"):
        model.learn_filters(np.zeros((2, 1, 12, 12), dtype=np.uint8))


def soft(size: int, grid: int, spread: float) -> np.ndarray[Any, Any]:
    """Gaussian weights `[grid, size]` around the middles of the cells."""
    weight = np.empty((grid, size))
    for a in range(grid):
        for i in range(size):
            weight[a, i] = np.exp(-((((i + 0.5) * grid / size) - (a + 0.5)) ** 2) / (2 * spread**2))
        weight[a] /= weight[a].sum()
    return weight


def test_spread_windows_overlap_and_weigh_places_by_their_distance() -> None:
    settings: dict[str, Any] = {"filters": 16, "sides": (4,), "colours": 3, "grid": 2, "root": False}
    encoder = ImageFlyNet((3, 12, 12), 2, seed=2, spread=0.7, **settings).encoder
    x = images(2, 3, 12, 12)
    (y,) = encoder.responses(x)
    over = np.maximum(y.numpy() - encoder.threshold, 0)
    window = soft(9, 2, 0.7)
    averages = np.einsum("ai,bj,nkij->nabk", window, window, over).reshape(2, -1)
    first = averages.shape[1]
    expected = (averages - encoder.centre[:first].numpy()) * encoder.scale[:first].numpy()
    assert np.allclose(encoder.encode(x)[:, :first].numpy(), expected, atol=1e-4)
    assert torch.allclose(encoder.encode(x), encoder.plain(x), atol=1e-4)
    assert not torch.allclose(encoder.encode(x), ImageFlyNet((3, 12, 12), 2, seed=2, **settings).encode(x), atol=0.1)


def test_a_second_layer_is_the_formula_on_neighbouring_cells_of_the_first() -> None:
    model = ImageFlyNet((3, 16, 16), 3, seed=1, filters=6, sides=(3, 5), colours=2, spread=0.7, second=5)
    encoder, x = model.encoder, images(2, 3, 16, 16)
    second = encoder.second
    assert second is not None
    assert model.features == 2 * 9 * 8 + 2 * 4 * 5
    channels = []
    for y in encoder.responses(x):
        window = soft(y.shape[2], 8, 0.5)
        over = [np.maximum(sign * y.numpy() - 0.5, 0) for sign in (1, -1)]
        channels += [np.einsum("ai,bj,nkij->nabk", window, window, part) for part in over]
    assert encoder.colours is not None
    colour = np.einsum("nchw,kc->nkhw", x.numpy(), encoder.colours.weight.numpy()) - encoder.colours.limit.numpy()
    window = soft(16, 8, 0.5)
    channels += [np.einsum("ai,bj,nkij->nabk", window, window, np.maximum(sign * colour, 0)) for sign in (1, -1)]
    cells = (np.sqrt(np.concatenate(channels, axis=-1) + ROOT_FLOOR) - second.centre.numpy()) * second.scale.numpy()
    found = np.zeros((2, 7, 7, 5))
    for n, i, j in np.ndindex(2, 7, 7):
        near = cells[n, i : i + 2, j : j + 2].reshape(-1)
        y = near @ second.weight.numpy() / np.sqrt(near @ near + ROOT_FLOOR)
        found[n, i, j] = (y - second.mean.numpy()) / second.deviation.numpy()
    window = soft(7, 2, 0.5)
    parts = [np.einsum("ai,bj,nijk->nabk", window, window, np.maximum(sign * found - 0.5, 0)) for sign in (1, -1)]
    roots = np.sqrt(np.stack(parts, axis=1).reshape(2, -1) + ROOT_FLOOR)
    expected = (roots - encoder.centre[-40:].numpy()) * encoder.scale[-40:].numpy()
    assert np.allclose(model.encode(x)[:, -40:].numpy(), expected, atol=1e-3)
    assert torch.allclose(model.encode(x), encoder.plain(x), atol=1e-3)


def test_a_second_layer_comes_from_the_seed_and_belongs_to_the_fingerprint() -> None:
    settings: dict[str, Any] = {"filters": 16, "colours": 4, "spread": 0.7, "symmetric": True}
    model = ImageFlyNet((3, 12, 12), 3, seed=5, gains=2, second=6, **settings)
    again = build(describe(model))
    x = images(4, 3, 12, 12)
    assert fingerprint(again) == fingerprint(model)
    assert torch.equal(again(x), model(x))
    assert list(model.state_dict()) == ["decoder.v", "decoder.alpha"]  # no filter is stored
    without = ImageFlyNet((3, 12, 12), 3, seed=5, gains=2, **settings)
    hard = ImageFlyNet((3, 12, 12), 3, seed=5, gains=2, **(settings | {"spread": 0.0}))
    assert not {"second", "spread"} & set(hard.config)  # folders of models without them keep their fingerprints
    assert len({found.encoder_fingerprint for found in (model, without, hard)}) == 3
    pictures = np.random.default_rng(0).integers(0, 256, size=(30, 3, 12, 12), dtype=np.uint8)
    model.learn_filters(pictures)
    stored = trained_weights(model)
    assert {"encoder.second.centre", "encoder.second.deviation"} <= set(stored)
    assert torch.allclose(model.encoder.encode(x), model.encoder.plain(x), atol=1e-3)


def test_constant_and_bfloat16_images_with_a_second_layer() -> None:
    encoder = ImageFlyNet((3, 16, 16), 2, seed=0, filters=32, colours=4, spread=0.7, second=8).encoder
    flat = encoder.encode(torch.full((2, 3, 16, 16), 0.7))
    assert torch.isfinite(flat).all()
    x = images(4, 3, 16, 16).mul(64).round() / 64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = encoder.encode(x)
    assert low.dtype == torch.float32
    assert float((low - encoder.encode(x)).abs().max()) < 0.2
