"""Fine-tuning against plain training of the same weights on one task after another."""

from __future__ import annotations

import pytest

from crwn.scenarios import Scenario
from reference_network import CountsOf, assert_predicts, batches, learn, make, parameters, trained


def test_training(small: Scenario) -> None:
    method = make("finetune", small)
    weights = trained(parameters(method, "weight"), batches(small[0], 3), rate=1e-3)
    learn(method, small[0], 3)
    assert_predicts(method, small[0], weights)
    weights = trained(weights, batches(small[1], 2), rate=1e-3)
    learn(method, small[1], 2)
    assert_predicts(method, small[0], weights)


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("finetune"), image_counts("finetune")
    assert flat.params_per_task == 268_800
    assert flat.params_per_task_amortised == pytest.approx(268_800 / 36)
    assert flat.bytes_per_task == 4 * 268_800 // 36
    assert images.params_per_task_amortised == pytest.approx(274_570 / 20)
    assert images.bytes_per_task == 4 * 1500 + 4 * 274_570 // 20
    assert images.note.count("statistics") == 1
