"""Replay against plain training on batches that are extended by stored rows."""

from __future__ import annotations

import numpy as np
import pytest

from crwn.data.dataset import visiting_order
from crwn.errors import ConfigError
from crwn.methods import Replay
from crwn.scenarios import Scenario
from reference_network import (
    BATCH,
    FEATURES,
    SEED,
    CountsOf,
    assert_predicts,
    batches,
    learn,
    make,
    parameters,
    trained,
)

ROW_BYTES = 4 * FEATURES + 2


def test_training(small: Scenario) -> None:
    method = make("replay", small, buffer_bytes=str(6 * ROW_BYTES))
    assert isinstance(method, Replay)
    first, second, third = small
    weights = trained(parameters(method, "weight"), batches(first, 2), rate=1e-3)
    learn(method, first, 2)
    x, y = (part.double().numpy() for part in method.kept["t0"])
    assert len(x) == 6

    mixed = method.prepared(second).rows
    given = []
    for at in visiting_order(len(second.train), BATCH, 2, seed=SEED, name="t1"):
        batch, labels = mixed.inputs(at).double().numpy(), mixed.labels(at).numpy()
        np.testing.assert_array_equal(batch[:BATCH], second.train.inputs(at).numpy())
        for row, label in zip(batch[BATCH:], labels[BATCH:], strict=True):
            position = np.flatnonzero((x == row).all(axis=1))
            assert y[position[0]] == label
        given.append((batch, labels))
    weights = trained(weights, given, rate=1e-3)
    learn(method, second, 2)
    assert_predicts(method, first, weights)
    assert [len(kept) for kept, _ in method.kept.values()] == [3, 3]
    learn(method, third, 1)
    assert [len(kept) for kept, _ in method.kept.values()] == [2, 2, 2]


def test_the_buffer_is_part_of_the_shared_state(small: Scenario) -> None:
    method = make("replay", small, buffer_bytes=str(6 * ROW_BYTES))
    for task in small[:2]:
        learn(method, task, 1)
    state = method.shared_state()
    buffer = {name: value for name, value in state.items() if name.startswith("buffer/")}
    assert buffer.keys() == {f"buffer/{k}/{part}/t{k}" for k in (0, 1) for part in ("x", "y")}
    assert sum(value.nbytes for value in buffer.values()) == 6 * ROW_BYTES


def test_a_buffer_without_room_for_every_task_is_an_error(small: Scenario) -> None:
    with pytest.raises(ConfigError, match=f"of {3 * ROW_BYTES - 1} bytes does not hold a row of {ROW_BYTES} bytes"):
        make("replay", small, buffer_bytes=str(3 * ROW_BYTES - 1))
    make("replay", small, buffer_bytes=str(3 * ROW_BYTES))


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("replay"), image_counts("replay")
    assert flat.params_per_task == 268_800
    assert flat.bytes_per_task == (4 * 268_800 + 36 * 4 * 786) // 36  # all four rows of a task fit
    small = flat_counts("replay", buffer_bytes="100000")
    assert small.bytes_per_task == (4 * 268_800 + 36 * 3 * 786) // 36  # 100,000 bytes hold three of each
    assert images.params_per_task_amortised == pytest.approx(274_570 / 20)
    assert images.bytes_per_task == 4 * 1500 + (4 * 274_570 + 20 * 16 * 3074) // 20
    assert images.note.count("statistics") == 1
