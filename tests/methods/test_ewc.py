"""EWC against the sum of one quadratic penalty for every earlier task, and the Fisher information by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crwn.data.dataset import Rows
from crwn.methods import EWC
from crwn.methods.ewc import diagonal_fisher
from crwn.scenarios import Scenario
from reference_network import (
    CLASSES,
    CountsOf,
    RMSprop,
    activations,
    arrays,
    batches,
    gradients,
    learn,
    make,
    model_of,
    parameters,
    softmax,
)


def test_training(small: Scenario) -> None:
    method = make("ewc", small, strength="50", fisher_rows="40")
    assert isinstance(method, EWC)
    first, second, third = small
    learn(method, first, 20)
    old = [arrays(method.weights, "weight")]
    fishers = [arrays(method.fisher, "weight")]
    learn(method, second, 20)
    old.append(arrays(method.weights, "weight"))
    fishers.append([both - one for both, one in zip(arrays(method.fisher, "weight"), fishers[0], strict=True)])

    # The third task, with a separate penalty for each earlier task.
    weights, step = old[1], RMSprop(1e-3)
    for x, y in batches(third, 3):
        found = gradients(x, y, weights)
        for star, fisher in zip(old, fishers, strict=True):
            found = [g + 50 * f * (w - o) for g, f, w, o in zip(found, fisher, weights, star, strict=True)]
        weights = [step(i, w, g) for i, (w, g) in enumerate(zip(weights, found, strict=True))]
    learn(method, third, 3)
    for ours, reference in zip(arrays(method.weights, "weight"), weights, strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-4)


def test_the_fisher_information_is_the_mean_of_squared_gradients(small: Scenario) -> None:
    method, task = make("finetune", small), small[0]
    weights = parameters(method, "weight")
    names = [name for name, _ in sorted(model_of(method).named_parameters())]
    repeated = Rows(task.train.x[:5].repeat(4000, 1), task.train.labels(slice(0, 5)).repeat(4000))
    found = diagonal_fisher(
        model_of(method),
        {name: torch.from_numpy(w).float() for name, w in zip(names, weights, strict=True)},
        repeated,
        classes=CLASSES,
        names=names,
        generator=np.random.default_rng(0),
    )
    # With labels drawn many times, the mean is the expectation over the model's prediction.
    expected = [np.zeros_like(w) for w in weights]
    for x in task.train.x[:5].double().numpy():
        chance = softmax(activations(x[None], weights)[-1])[0]
        for label in range(CLASSES):
            for e, g in zip(expected, gradients(x[None], np.array([label]), weights), strict=True):
                e += chance[label] * g**2 / 5
    for name, e in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name].numpy(), e, rtol=0.1, atol=0.02 * e.max())


def test_outputs_beyond_the_classes_of_a_task_have_no_fisher_information(small: Scenario) -> None:
    model = model_of(make("finetune", small))
    names = [name for name, _ in model.named_parameters()]
    found = diagonal_fisher(
        model,
        {name: value.detach() for name, value in model.named_parameters()},
        Rows(small[0].train.x[:40]),
        classes=2,
        names=names,
        generator=np.random.default_rng(0),
    )
    last = found[names[-1]]
    assert bool((last[:2] > 0).any())
    assert not bool(last[2:].any())


def test_states_have_these_keys(small: Scenario) -> None:
    method = make("ewc", small)
    learn(method, small[0], 1)
    names = [f"layers.{i}.weight" for i in range(3)]
    prefixes = ("", "fisher/", "centre/")
    assert method.shared_state().keys() == {prefix + name for prefix in prefixes for name in names}


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("ewc"), image_counts("ewc")
    assert (flat.params_per_task, flat.bytes_per_task) == (268_800, 3 * 4 * 268_800 // 36)
    assert images.params_per_task == 274_570
    assert images.params_per_task_amortised == pytest.approx(3 * 274_570 / 20)
    assert images.bytes_per_task == 4 * 1500 + 3 * 4 * 274_570 // 20
    assert images.note.count("statistics") == 1
