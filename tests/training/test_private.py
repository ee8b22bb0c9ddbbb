"""Training with differential privacy: gradients of single rows, the noise that is added, and its accountant."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import crwn
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, DataError, ModelError
from crwn.layers import context_tensors
from crwn.models import NeuroModResNet
from crwn.training.private import PrivateSettings, noise_for, train_private
from crwn.training.row_gradients import RowGradients
from crwn.training.task import PreparedTask
from digit_rows import Data

pytest.importorskip("opacus", reason='Opacus is not installed: pip install "crwn[privacy]"')


def task(digits: Data, rows: int = 600) -> PreparedTask:
    x = torch.from_numpy(digits[0][:rows] / 8 - 1).float()
    return PreparedTask("t", Rows(x, torch.from_numpy(digits[1][:rows].copy())), tuple(range(10)))


@pytest.mark.parametrize(
    "network",
    [
        crwn.FlyNet(64, 200, 10, seed=0),
        crwn.FlyNet(64, 200, 10, seed=0, modulation="local"),
        crwn.FlyNet(64, 200, 12, seed=0, modulation="global"),
        crwn.NeuroModNet(64, (48, 32), 10, seed=0),
        crwn.NeuroModNet(64, (48, 32), 10, seed=0, modulation="global", weights="hadamard"),
    ],
)
def test_the_sum_is_that_of_rows_clipped_one_by_one(digits: Data, network: torch.nn.Module) -> None:
    rows = task(digits, 20).rows
    tensors = dict(context_tensors(network))
    gradients = RowGradients(network, 10)
    clip = gradients.usual_length(network, (64,))
    sums, loss = gradients.clipped_sum(tensors, rows.inputs(slice(None)), rows.labels(slice(None)), clip)
    expected = {name: torch.zeros_like(value) for name, value in tensors.items()}
    losses, lengths = 0.0, []
    for row in range(20):
        leaves = {name: value.detach().clone().requires_grad_() for name, value in tensors.items()}
        logits = torch.func.functional_call(network, leaves, (rows.inputs(slice(row, row + 1)),))
        one = F.cross_entropy(logits[:, :10], rows.labels(slice(row, row + 1)))
        found = torch.autograd.grad(one, list(leaves.values()))
        length = math.sqrt(sum(float(part.square().sum()) for part in found))
        lengths.append(length)
        for name, part in zip(leaves, found, strict=True):
            expected[name] += part / max(clip, length)
        losses += one.item()
    assert min(lengths) < clip < max(lengths)  # some rows are clipped
    assert loss == pytest.approx(losses / 20, rel=1e-4)
    for name, value in expected.items():
        torch.testing.assert_close(sums[name], value, atol=1e-4, rtol=1e-3)


def test_one_row_moves_the_sum_by_at_most_one(digits: Data) -> None:
    network = crwn.FlyNet(64, 200, 10, seed=0)
    rows, tensors = task(digits, 50).rows, dict(context_tensors(network))
    gradients = RowGradients(network, 10)
    whole, _ = gradients.clipped_sum(tensors, 100 * rows.inputs(slice(0, 50)), rows.labels(slice(0, 50)), 1.0)
    fewer, _ = gradients.clipped_sum(tensors, 100 * rows.inputs(slice(0, 49)), rows.labels(slice(0, 49)), 1.0)
    moved = math.sqrt(sum(float((whole[name] - fewer[name]).square().sum()) for name in whole))
    assert moved == pytest.approx(1.0, abs=1e-3)  # rows far too large are clipped to exactly one


def test_the_accountant_is_opacus_and_less_epsilon_needs_more_noise() -> None:
    found = [noise_for(PrivateSettings(epsilon=epsilon, delta=1e-5), 60_000) for epsilon in (1.0, 3.0, 8.0)]
    noises = [noise for noise, _ in found]
    assert noises == sorted(noises, reverse=True)
    for (_, spent), epsilon in zip(found, (1.0, 3.0, 8.0), strict=True):
        assert 0.97 * epsilon < spent <= epsilon
    # One step with all rows is the Gaussian mechanism: its classic bound needs more noise than the accountant.
    one_step = PrivateSettings(epsilon=1.0, delta=1e-5, batch_size=100, epochs=1)
    assert 2.0 < noise_for(one_step, 100)[0] < math.sqrt(2 * math.log(1.25 / 1e-5))


def test_noise_has_the_size_that_the_accountant_names(digits: Data) -> None:
    """One step from equal starts: two seeds differ by sampling and noise, in features without signal by noise alone."""
    network = crwn.FlyNet(64, 200, 10, seed=0)
    x = torch.zeros(400, 64)  # no features: gradients are zero, and the context moves by noise alone
    blank = PreparedTask("t", Rows(x, torch.zeros(400, dtype=torch.long)), tuple(range(10)))
    settings = PrivateSettings(epsilon=1.0, delta=1e-5, batch_size=400, epochs=1, rate=1.0)
    found = train_private(network, blank, settings, seed=0)
    moved = found.learned.tensors["decoder.v"] - context_tensors(network)["decoder.v"]
    assert float(moved.std()) == pytest.approx(found.noise / 400 * math.sqrt(201), rel=0.2)


def test_learns_digits_and_the_secret_seed_differs(digits: Data) -> None:
    network = crwn.FlyNet(64, 300, 10, seed=0)
    given = task(digits, 1200)
    settings = PrivateSettings(epsilon=8.0, delta=1e-4)
    one, other = (train_private(network, given, settings).learned.tensors for _ in range(2))
    assert not torch.equal(one["decoder.v"], other["decoder.v"])
    same = [train_private(network, given, settings, seed=5).learned.tensors["decoder.v"] for _ in range(2)]
    assert torch.equal(*same)
    held = torch.from_numpy(digits[0][1200:] / 8 - 1).float()
    logits = torch.func.functional_call(network, one, (held,))
    majority = np.bincount(digits[1][1200:]).max() / len(held)
    accuracy = float((logits.argmax(dim=1).numpy() == digits[1][1200:]).mean())
    assert accuracy > 5 * majority


def test_bad_input_is_one_line(digits: Data) -> None:
    network = crwn.FlyNet(64, 100, 10, seed=0)
    settings = PrivateSettings(epsilon=1.0, delta=1e-5)
    weighted = task(digits, 20).rows
    rows = Rows(weighted.x, weighted.y, weight=torch.ones(20))
    with pytest.raises(DataError, match="without weights"):
        train_private(network, PreparedTask("t", rows, tuple(range(10))), settings)
    with pytest.raises(DataError, match="has no rows"):
        train_private(network, PreparedTask("t", Rows(torch.zeros(0, 64), torch.zeros(0)), (0, 1)), settings)
    with pytest.raises(ModelError, match="no gradients of single rows"):
        RowGradients(NeuroModResNet(10, 5, seed=0), 5)
    with pytest.raises(ConfigError, match="cannot be reached"):
        noise_for(PrivateSettings(epsilon=1e-6, delta=1e-12, epochs=1000), 100)
    images = crwn.ImageFlyNet((1, 12, 12), classes=2, seed=0, filters=16)
    mirrored = PreparedTask("t", Rows(torch.zeros(4, 1, 12, 12), torch.zeros(4, dtype=torch.long)), (0, 1))
    with pytest.raises(DataError, match="2 copies of every row"):
        train_private(images, mirrored, settings)
