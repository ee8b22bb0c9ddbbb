"""STL against plain training of all weights."""

from __future__ import annotations

from crwn.scenarios import Scenario
from reference_network import CountsOf, assert_predicts, batches, learn, make, parameters, trained


def test_training(small: Scenario) -> None:
    method = make("stl", small)
    start = parameters(method, "weight")
    for task in small[:2]:  # both from the same start
        learn(method, task, 3)
    for task in small[:2]:
        assert_predicts(method, task, trained(start, batches(task, 3), rate=1e-3))


def test_states_have_these_keys(small: Scenario) -> None:
    method = make("stl", small)
    learn(method, small[0], 1)
    assert method.task_state(small[0]).keys() == {f"layers.{i}.weight" for i in range(3)}


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("stl"), image_counts("stl")
    assert (flat.params_per_task, flat.params_per_task_amortised) == (268_800, 268_800)
    assert flat.bytes_per_task == 4 * 268_800
    assert (images.params_per_task, images.params_per_task_amortised) == (274_570, 274_570)
    assert images.bytes_per_task == 4 * (274_570 + 1500)
    assert images.note.count("statistics") == 1
