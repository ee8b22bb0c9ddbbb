"""The whitened stem: its formula patch by patch, images of other sizes, precision, and what it refuses."""

import pytest
import torch

from crwn.errors import ConfigError
from crwn.layers.weights.filters import CONTRAST, FilterBank
from crwn.models.whitened_stem import WhitenedStem

STEM = WhitenedStem((3, 16, 14), filters=10, sides=(4, 7), threshold=0.4, seed=0)


def test_maps_are_the_formula_s() -> None:
    x = torch.randn(2, 3, 16, 14, generator=torch.Generator().manual_seed(0))
    maps = STEM(x)
    assert maps.shape == (2, 20, 7, 6)
    wide = torch.zeros(2, 3, 19, 17)  # filters of 7 look one pixel further up and left, and two down and right
    wide[:, :, 1:17, 1:15] = x
    for bank, first, image in ((STEM.banks[0], 0, x), (STEM.banks[1], 5, wide)):
        assert isinstance(bank, FilterBank)
        for place in ((0, 0), (3, 2), (6, 5)):
            top, left = 2 * place[0], 2 * place[1]
            patch = image[:, :, top : top + bank.side, left : left + bank.side].permute(0, 2, 3, 1).flatten(1)
            deviation = (patch.var(dim=1, correction=0, keepdim=True) + CONTRAST).sqrt()
            y = (patch - patch.mean(dim=1, keepdim=True)) @ bank.weight / deviation
            found = maps[:, :, place[0], place[1]]
            torch.testing.assert_close(found[:, first : first + 5], (y - 0.4).relu(), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found[:, 10 + first : 15 + first], (-y - 0.4).relu(), rtol=1e-4, atol=1e-5)


def test_a_plain_image_and_a_brighter_one() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 3, 16, 14, generator=generator)
    assert not STEM(torch.full((1, 3, 16, 14), 2.0))[:, :5, 1:-1, 1:-1].any()  # no contrast, no response
    inner = (slice(None), slice(0, 5))  # of the filters that never see the margin
    torch.testing.assert_close(STEM(x + 1.0)[inner], STEM(x)[inner], rtol=1e-3, atol=1e-3)


def test_filters_come_from_the_seed() -> None:
    again = WhitenedStem((3, 16, 14), filters=10, sides=(4, 7), threshold=0.4, seed=0)
    other = WhitenedStem((3, 16, 14), filters=10, sides=(4, 7), threshold=0.4, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(STEM.buffers(), again.buffers(), strict=True))
    assert STEM.fingerprint == again.fingerprint != other.fingerprint
    assert not STEM.state_dict()


def test_products_are_float32_where_others_are_bfloat16() -> None:
    x = torch.randn(2, 3, 16, 14, generator=torch.Generator().manual_seed(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = STEM(x)
    assert torch.equal(rounded, STEM(x))


def test_large_and_grey_images() -> None:
    large = WhitenedStem((1, 84, 84), filters=4, seed=0)
    x = torch.rand(1, 1, 84, 84, generator=torch.Generator().manual_seed(3))
    small = x.unflatten(2, (42, 2)).unflatten(4, (42, 2)).mean(dim=(3, 5))
    torch.testing.assert_close(large(x), WhitenedStem((1, 42, 42), filters=4, seed=0)(small))


def test_what_it_refuses() -> None:
    with pytest.raises(ConfigError, match="images of 3 x 7 x 32 are too small for filters of 4: 8 x 8"):
        WhitenedStem((3, 7, 32), filters=4, seed=0)
    with pytest.raises(ConfigError, match=r"images of 3 x 20 x 200 \(averaged down by 5\) are too small"):
        WhitenedStem((3, 20, 200), filters=4, seed=0)
    assert WhitenedStem((3, 8, 8), filters=4, seed=0)(torch.zeros(1, 3, 8, 8)).shape == (1, 8, 3, 3)
    with pytest.raises(ConfigError, match=r"sides of at least 2 and a filter for each, got 1 and \(4, 8\)"):
        WhitenedStem((3, 32, 32), filters=1, seed=0)
    with pytest.raises(ConfigError, match=r"\(channels, height, width\), got \(32, 32\)"):
        WhitenedStem((32, 32), filters=4, seed=0)
