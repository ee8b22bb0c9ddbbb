"""Similarity of contexts by what they do to the outputs."""

from __future__ import annotations

import pytest
import torch

import crwn
from crwn.insight.effect import effect_similarity, probe_rows
from crwn.layers import context_tensors


def test_effects_ignore_what_the_outputs_cannot_see() -> None:
    model = crwn.NeuroModNet(in_features=64, hidden=(32,), classes=3, seed=0)
    generator = torch.Generator().manual_seed(0)
    start = context_tensors(model)
    contexts = [{k: v + 0.3 * torch.randn(v.shape, generator=generator) for k, v in start.items()} for _ in range(5)]
    # The sizes of two layers' alphas can trade places without changing any output.
    twin = {name: tensor.clone() for name, tensor in contexts[2].items()}
    twin["layers.0.alpha"], twin["layers.1.alpha"] = twin["layers.0.alpha"] * 4, twin["layers.1.alpha"] / 4
    alike = effect_similarity(model, [*contexts, twin])
    assert alike[2, 5] == pytest.approx(1.0, abs=1e-4)
    assert alike[2, 3] < 0.9


def test_probes_are_smooth_where_they_may_be_images() -> None:
    def neighbours(rows: torch.Tensor) -> float:
        return float((rows[..., 1:] * rows[..., :-1]).mean())

    assert neighbours(probe_rows((784,), 64).view(64, 28, 28)) > 0.8
    assert neighbours(probe_rows((3, 32, 32), 8)) > 0.8
    assert abs(neighbours(probe_rows((50,), 64))) < 0.1
    assert float(probe_rows((784,), 64).std()) == pytest.approx(1.0, abs=0.02)
    assert torch.equal(probe_rows((784,), 4, seed=1), probe_rows((784,), 4, seed=1))
