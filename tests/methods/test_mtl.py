"""MTL against plain training on the rows of all tasks."""

from __future__ import annotations

import pytest
import torch

from crwn.data.dataset import Rows
from crwn.methods import make_method
from crwn.scenarios import Scenario, Task
from digit_rows import same_tensors
from reference_network import BATCH, CountsOf, assert_predicts, batches, make, parameters, trained


def test_training_mixes_all_tasks(small: Scenario) -> None:
    method = make("mtl", small)
    x = torch.cat([task.train.x for task in small])
    y = torch.cat([task.train.labels(slice(None)) for task in small])
    joined = Task("all tasks", Rows(x, y), small[0].test, small[0].classes)
    # Two batches per task and three tasks: six batches of rows of all of them.
    weights = trained(parameters(method, "weight"), batches(joined, 6), rate=1e-3)
    method.learn(list(small), method.recipe(batches=2, batch_size=BATCH))
    for task in small:
        assert_predicts(method, task, weights)


def test_epochs_are_over_the_rows_of_all_tasks(small: Scenario) -> None:
    by_epochs, by_batches = make("mtl", small), make("mtl", small)
    by_epochs.learn(list(small), by_epochs.recipe(epochs=2, batch_size=BATCH))
    by_batches.learn(list(small), by_batches.recipe(batches=10, batch_size=BATCH))  # 3 tasks * 10 = 2 * 120 rows / 8
    assert by_epochs.shared_state() != {}
    assert same_tensors(by_epochs.shared_state(), by_batches.shared_state())


def test_only_shared_state(stripes: Scenario) -> None:
    method, _ = make_method("mtl", stripes)
    method.learn(list(stripes), method.recipe(batches=1))
    assert [method.task_state(task) for task in stripes] == [{}, {}]
    assert "stem_norm.running_mean" in method.shared_state()


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("mtl"), image_counts("mtl")
    assert (flat.params_per_task, flat.bytes_per_task) == (268_800, 4 * 268_800 // 36)
    assert images.params_per_task == 274_570
    assert images.params_per_task_amortised == pytest.approx(274_570 / 20)
    assert images.bytes_per_task == 4 * (274_570 + 1500) // 20
    assert "statistics" not in images.note
