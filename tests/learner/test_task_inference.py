"""Task inference: ranking, calibration, and ways to try only a few of many tasks."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import crwn
from crwn.contexts import Context
from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.learner.entropy import normalised_entropy
from crwn.learner.ranking import none_fits
from crwn.learner.task_inference import METHODS, Method, fit_of
from digit_rows import Array, Data

PERMUTATIONS = 20


def shuffled(x: Array, number: int) -> Array:
    return x[:, np.random.default_rng(number).permutation(x.shape[1])]


@pytest.fixture(scope="module")
def twenty(digits: Data) -> Learner:
    """Twenty permutations of the digits, each task's rows in a unit of its own; tests only read from it."""
    x, y = digits
    made = Learner(crwn.NeuroModNet(in_features=64, hidden=(128,), classes=10, seed=0))
    tasks = {f"p{i:02}": (shuffled(x[:1400], i) * (1 + i % 3), y[:1400]) for i in range(PERMUTATIONS)}
    made.learn_many(tasks, batches=120, progress=False)
    return made


def group(digits: Data, task: int, at: int, size: int) -> Array:
    start = 1400 + at % (397 - size)
    return shuffled(digits[0][start : start + size], task) * (1 + task % 3)


@pytest.mark.parametrize("method", ["sketch", "auto"])
def test_groups_find_their_task(twenty: Learner, digits: Data, method: Method) -> None:
    found = [twenty.infer_task(group(digits, i, 7 * i, 32), method=method)[0].task for i in range(PERMUTATIONS)]
    right = sum(name == f"p{i:02}" for i, name in enumerate(found))
    assert right >= PERMUTATIONS - 1


def test_the_sketch_keeps_the_right_task_among_few(twenty: Learner, digits: Data) -> None:
    for i in range(PERMUTATIONS):
        ranking = twenty.infer_task(group(digits, i, 5 * i, 16), method="sketch", keep=4)
        assert len(ranking) == 4
        assert f"p{i:02}" in [one.task for one in ranking]


def test_exhaustive_tries_all_and_one_shot_a_few(twenty: Learner, digits: Data) -> None:
    x = group(digits, 1, 0, 32)
    every = twenty.infer_task(x, method="exhaustive")
    assert sorted(one.task for one in every) == twenty.tasks
    assert [one.strange for one in every] == sorted(one.strange for one in every), "those that know such rows first"
    few = twenty.infer_task(x, method="one-shot", keep=5)
    scores = {one.task: one.score for one in every}
    assert len(few) == 5
    for one in few:
        assert one.score == pytest.approx(scores[one.task], abs=1e-5)


def test_gradients_are_those_of_the_mixture(twenty: Learner, digits: Data) -> None:
    """`dH/dp_k` by the chain rule equals what a change of one weight of the mixture does to the entropy."""
    from torch.func import functional_call

    from crwn.learner.one_shot import _gains

    names = twenty.tasks[:6]
    x = torch.from_numpy(group(digits, 2, 0, 8))
    gains = _gains(twenty.model, twenty.resident, names, Rows(x))
    contexts = [twenty.context(name) for name in names]

    def entropy(weights: torch.Tensor) -> float:
        mixed = {
            key: sum(w * c.tensors[key].double() for w, c in zip(weights, contexts, strict=True))
            for key in contexts[0].tensors
        }
        scalings = [context.info["scaling"] for context in contexts]
        factors = torch.tensor([[1 / std, -mean / std] for mean, std in scalings])
        factor, shift = (weights[:, None] * factors.double()).sum(dim=0)
        out = functional_call(twenty.model.double(), mixed, (x.double() * factor + shift,))
        return float(normalised_entropy(out[None], torch.tensor([10]))[0])

    equal = torch.full((6,), 1 / 6, dtype=torch.float64)
    try:
        for k in range(6):
            step = torch.zeros(6, dtype=torch.float64)
            step[k] = 1e-5
            slope = (entropy(equal + step) - entropy(equal - step)) / 2e-5
            assert -float(gains[k]) == pytest.approx(slope, rel=2e-3, abs=1e-4)
    finally:
        twenty.model.float()


def test_none_of_these(twenty: Learner, digits: Data) -> None:
    own = [none_fits(twenty.infer_task(group(digits, i % PERMUTATIONS, 3 * i, 32))) for i in range(100)]
    assert sum(map(bool, own)) <= 10
    unknown = [none_fits(twenty.infer_task(group(digits, 1000 + 3 * i, 3 * i, 64))) for i in range(40)]
    assert sum(map(bool, unknown)) >= 30


def test_contexts_without_calibration_still_rank(twenty: Learner, digits: Data) -> None:
    old = twenty.context("p03")
    bare = Learner(twenty.model)
    bare.add(Context("p03", old.tensors, old.classes, old.model, info={"scaling": old.info["scaling"]}))
    other = twenty.context("p04")
    bare.add(Context("p04", other.tensors, other.classes, other.model, info=other.info))
    for method in METHODS:
        ranking = bare.infer_task(group(digits, 3, 0, 32), method=method)
        assert [one.task for one in ranking] == ["p03", "p04"]
        assert ranking[0].fit is None
        assert none_fits(ranking) is None


def test_more_tasks_than_stay_in_memory(twenty: Learner, digits: Data) -> None:
    small = Learner(twenty.model, resident=6)
    small.bank.put_many(twenty.context(name) for name in twenty.tasks)
    x = group(digits, 5, 0, 32)
    for method in METHODS:
        wanted = twenty.infer_task(x, method=method, keep=4)
        got = small.infer_task(x, method=method, keep=4)
        assert [one.task for one in got] == [one.task for one in wanted]
        np.testing.assert_allclose([one.score for one in got], [one.score for one in wanted], atol=1e-5)


def test_an_unknown_way_is_refused(twenty: Learner) -> None:
    with pytest.raises(ConfigError, match="choose one of auto, exhaustive"):
        twenty.infer_task(np.zeros((1, 64)), method=cast(Method, "guess"))


@given(st.floats(0, 1), st.integers(1, 1000), st.floats(0, 1), st.floats(0, 1), st.integers(1, 1000))
def test_fit_is_a_chance_and_falls(entropy: float, rows: int, mean: float, std: float, count: int) -> None:
    own = {"mean": mean, "std": std, "rows": count}
    fit, higher = fit_of(entropy, rows, own), fit_of(min(1.0, entropy + 0.1), rows, own)
    assert fit is not None
    assert higher is not None
    assert 0 <= higher <= fit + 1e-9 <= 1 + 2e-9


@pytest.mark.parametrize("own", [None, {}, "x", {"mean": "a", "std": 1, "rows": 1}, {"mean": 2, "std": 1, "rows": 1}])
def test_fit_is_unknown_without_facts(own: object) -> None:
    assert fit_of(0.5, 4, own) is None


def test_rankings_are_sorted_by_the_score_they_show_and_can_be_none_of_these(digits: Data) -> None:
    x, y = digits
    learner = Learner(crwn.NeuroModNet(64, (128,), 10, seed=0))
    turned = {f"t{at}": (np.rot90(x.reshape(-1, 8, 8), at, axes=(1, 2)).reshape(-1, 64), y) for at in range(4)}
    learner.learn_many(turned, batches=60, progress=False)
    found = learner.infer_task(turned["t2"][0][:32])
    assert found[0].task == "t2"
    assert found.none_of_these is False
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1
    noise = learner.infer_task(np.random.default_rng(0).uniform(0, 16, size=(32, 64)))
    assert noise.none_of_these is True
    assert all(one.score < 0.1 for one in noise if one.strange)


def test_false_alarms_are_as_rare_as_asked_for(twenty: Learner, digits: Data) -> None:
    def alarms(share: float) -> float:
        found = [
            twenty.infer_task(group(digits, i, 11 * i + 37 * again, 16), false_alarms=share).none_of_these
            for i in range(PERMUTATIONS)
            for again in range(4)
        ]
        return sum(map(bool, found)) / len(found)

    few, usual, many = alarms(0.001), alarms(0.05), alarms(0.5)
    assert few <= usual <= 0.15  # of 80 groups
    assert many > 0.25


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan"), True, "few"])
def test_a_share_of_false_alarms_is_between_0_and_1(twenty: Learner, digits: Data, share: object) -> None:
    with pytest.raises(ConfigError, match="false_alarms is a share"):
        twenty.infer_task(digits[0][:4], false_alarms=share)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="false_alarms is a share"):
        twenty.infer_rows(digits[0][:4], false_alarms=share)  # type: ignore[arg-type]
