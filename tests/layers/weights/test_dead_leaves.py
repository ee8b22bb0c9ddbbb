"""Dead-leaves pictures: pinned pixels, occlusion at all scales, grey pictures, filters made from them."""

import numpy as np
import pytest
import torch

from crwn.errors import ConfigError
from crwn.layers.weights.dead_leaves import PICTURES, SIDE, dead_leaves
from crwn.layers.weights.filters import FilterBank


def test_pixels_are_the_same_everywhere() -> None:
    pictures, digest = dead_leaves(3, seed=0)
    assert pictures.shape == (PICTURES, 3, SIDE, SIDE)
    assert pictures.dtype == np.uint8
    assert digest == "94b4da95f2486d645adc04bfe5f109fab7dbde3c5cba4ddfabd8fedf41e8440c"
    assert dead_leaves(3, seed=1)[1] != digest


def test_neighbours_are_alike_and_the_spectrum_falls_as_that_of_photographs() -> None:
    grey = dead_leaves(1, seed=0)[0][:, 0].astype(np.float64)
    near = np.corrcoef(grey[:, :, :-1].ravel(), grey[:, :, 1:].ravel())[0, 1]
    far = np.corrcoef(grey[:, :, :-20].ravel(), grey[:, :, 20:].ravel())[0, 1]
    assert near > 0.85
    assert near > far + 0.3
    power = (abs(np.fft.fft2(grey - grey.mean(axis=(1, 2), keepdims=True))) ** 2).mean(axis=0)[0, 1 : SIDE // 2]
    slope = np.polyfit(np.log(np.arange(1, SIDE // 2)), np.log(power), 1)[0]
    assert -3.5 < slope < -1.5  # photographs: about -2


def test_grey_and_other_numbers_of_channels() -> None:
    colour, grey, four = (dead_leaves(channels, seed=0)[0] for channels in (3, 1, 4))
    assert abs(colour.mean(axis=1) - grey[:, 0]).max() <= 1
    assert four.shape[1] == 4


def test_filters_are_whitened_sum_to_zero_and_have_responses_of_deviation_one() -> None:
    pictures, _ = dead_leaves(3, seed=0)
    bank = FilterBank(6, 64, 3, pictures=pictures, seed=0, name="test")
    assert bank.weight.shape == (108, 64)
    assert float(bank.weight.sum(dim=0).abs().max()) < 1e-3
    values = (pictures - pictures.mean()) / pictures.std()
    windows = np.lib.stride_tricks.sliding_window_view(values, (6, 6), axis=(2, 3))[:, :, ::7, ::7]
    patches = np.moveaxis(windows, 1, -1).reshape(-1, 108)
    normed = (patches - patches.mean(axis=1, keepdims=True)) / np.sqrt(patches.var(axis=1, keepdims=True) + 0.0025)
    spread = (torch.from_numpy(normed).float() @ bank.weight).std(dim=0)
    assert 0.6 < float(spread.median()) < 1.5


def test_filters_larger_than_the_pictures() -> None:
    with pytest.raises(ConfigError, match="filters of 60 x 60 pixels do not fit pictures of 48 x 48"):
        FilterBank(60, 4, 1, pictures=dead_leaves(1, seed=0)[0], seed=0, name="test")
