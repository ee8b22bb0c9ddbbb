"""The initial tensors: their distributions, and values that saved states depend on."""

from __future__ import annotations

import math

import pytest
import torch

from crwn.methods.initial_weights import fan_in, kaiming_normal, random_signs, xavier_normal


def test_fan_in() -> None:
    assert fan_in((4, 7)) == 7
    assert fan_in((4, 7, 3, 5)) == 7 * 3 * 5


def test_variances() -> None:
    assert float(kaiming_normal((300, 600), seed=0, name="a").var()) == pytest.approx(2 / 600, rel=0.02)
    assert float(kaiming_normal((300, 60, 3, 3), seed=0, name="a").var()) == pytest.approx(2 / 540, rel=0.02)
    assert float(xavier_normal((300, 600), seed=0, name="a").var()) == pytest.approx(2 / 900, rel=0.02)


def test_signs_are_balanced_and_depend_on_seed_and_name() -> None:
    signs = random_signs((200, 10, 3, 3), seed=0, name="a")
    assert signs.dtype == torch.float32
    assert set(signs.flatten().tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 4 / math.sqrt(signs.numel())
    for other in (random_signs((200, 10, 3, 3), seed=1, name="a"), random_signs((200, 10, 3, 3), seed=0, name="b")):
        assert 0.45 < float((signs == other).float().mean()) < 0.55


def test_values_are_pinned() -> None:
    """Stored states of every baseline rely on these being drawn again."""
    pinned = torch.tensor([-1.6325957775115967, -0.4916623830795288, 0.035784702748060226])
    torch.testing.assert_close(kaiming_normal((5, 5), seed=5, name="dense:layers.1")[0, :3], pinned)
    torch.testing.assert_close(xavier_normal((5, 5), seed=5, name="dense:layers.1")[0, :3], pinned / math.sqrt(2))
    assert random_signs((5, 5), seed=5, name="signs:layers.1")[0, :3].tolist() == [1.0, 1.0, -1.0]
