"""PSP against its formula: the layers, and training of two tasks in one set of weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from crwn.methods import PSP
from crwn.methods.psp import PSPConv2d, PSPLinear, random_rotation
from crwn.scenarios import Scenario
from reference_network import CountsOf, RMSprop, assert_predicts, batches, gradients, learn, make, parameters


def test_linear() -> None:
    layer = PSPLinear(600, 300, seed=0, name="a")
    assert float(layer.weight.detach().var()) == pytest.approx(2 / 900, rel=0.02)
    x = torch.randn(4, 600, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), x @ layer.weight.T)
    rotation = random_rotation(600, seed=1, name="a")
    layer.rotation.data = rotation
    torch.testing.assert_close(layer(x), x @ (layer.weight @ rotation).T, rtol=1e-4, atol=1e-4)


def test_conv2d() -> None:
    layer = PSPConv2d((4, 3, 3, 3), seed=0, name="a", padding=1)
    x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), F.conv2d(x, layer.weight, padding=1))
    layer.use_task(seed=1, name="a")
    torch.testing.assert_close(layer(x), F.conv2d(x, layer.weight * layer.signs, padding=1))


def test_signs_depend_on_the_task() -> None:
    layer = PSPConv2d((4, 3, 3, 3), seed=0, name="a")
    layer.use_task(seed=1, name="a")
    first = layer.signs
    layer.use_task(seed=2, name="a")
    assert first.shape == (1, 3, 3, 3)
    assert set(first.flatten().tolist()) == {-1.0, 1.0}
    assert not torch.equal(first, layer.signs)


def learned_names(layer: nn.Module) -> list[str]:
    return [name for name, value in layer.named_parameters() if value.requires_grad]


def test_what_is_learned() -> None:
    assert learned_names(PSPLinear(3, 4, seed=0, name="a")) == ["weight", "rotation"]
    assert learned_names(PSPLinear(3, 4, seed=0, name="a", learned=False)) == ["weight"]
    assert learned_names(PSPConv2d((4, 3, 3, 3), seed=0, name="a")) == ["weight"]


@pytest.mark.parametrize("rotations", ["learned", "fixed"])
def test_training(small: Scenario, rotations: str) -> None:
    method = make("psp", small, rotations=rotations)
    assert isinstance(method, PSP)
    weights = parameters(method, "weight")
    kept = {}
    for k in (0, 1):
        task = small[k]
        seed = method.task_seed(task)
        sizes = [w.shape[1] for w in weights]
        turned = [random_rotation(n, seed=seed, name=f"layers.{i}").double().numpy() for i, n in enumerate(sizes)]
        step = RMSprop(1e-4)
        for x, y in batches(task, 2):
            found = gradients(x, y, [w @ c for w, c in zip(weights, turned, strict=True)])
            # The gradient of W is that of the product W C, times C transposed; that of C is W transposed times it.
            both = list(zip(weights, turned, found, strict=True))
            weights = [step(i, w, g @ c.T) for i, (w, c, g) in enumerate(both)]
            if rotations == "learned":
                turned = [step(10 + i, c, w.T @ g) for i, (w, c, g) in enumerate(both)]
        learn(method, task, 2)
        kept[k] = turned
    for k in (0, 1):
        assert_predicts(method, small[k], [w @ c for w, c in zip(weights, kept[k], strict=True)])
    assert np.abs(kept[0][0] - kept[1][0]).max() > 0.1
    other = make("psp", small, rotations=rotations)
    other.restore({task.name: method.task_state(task) for task in small[:2]}, method.shared_state())
    for task in small[:2]:
        assert torch.equal(other.logits(task, task.test), method.logits(task, task.test))


def test_random_rotations_are_orthogonal_and_uniform() -> None:
    rotation = random_rotation(64, seed=1, name="x").double()
    np.testing.assert_allclose((rotation @ rotation.T).numpy(), np.eye(64), atol=1e-6)
    # Haar: the trace has mean 0 and variance 1; QR without the sign correction has a clearly negative mean.
    traces = np.array([float(random_rotation(6, seed=seed, name="x").trace()) for seed in range(400)])
    assert abs(traces.mean()) < 0.2
    assert 0.8 < traces.var() < 1.25


def test_states_have_these_keys(small: Scenario) -> None:
    fixed = make("psp", small, rotations="fixed")
    learn(fixed, small[0], 1)
    assert fixed.task_state(small[0]).keys() == {"seed"}
    method = make("psp", small)
    learn(method, small[0], 1)
    assert method.task_state(small[0]).keys() == {f"layers.{i}.rotation" for i in range(3)}
    assert method.shared_state().keys() == {f"layers.{i}.weight" for i in range(3)}


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("psp"), image_counts("psp")
    assert (flat.params_per_task, flat.params_per_task_amortised) == (1_014_528, 1_014_528)
    assert flat.bytes_per_task == 4 * 745_728 + 4 * 268_800 // 36
    assert "745,728 values of rotations that it trains" in flat.note
    assert (images.params_per_task, images.params_per_task_amortised) == (273_070, 273_070)
    assert images.bytes_per_task == 8 + 4 * 1500 + 4 * 273_070 // 20
    assert "seed for the signs" in images.note
    assert images.note.count("statistics") == 1
