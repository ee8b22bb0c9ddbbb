"""BatchE against its formula: the layers, and training of the first and of a later task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from crwn.data.dataset import Rows
from crwn.methods import BatchE, make_method
from crwn.methods.batche import BatchEConv2d, BatchELinear
from crwn.scenarios import Scenario, Task
from reference_network import CountsOf, RMSprop, arrays, assert_predicts, batches, buffers, gradients, learn, make


def scaled(layer: BatchELinear | BatchEConv2d) -> None:
    """Give the layer random s and t."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.s.normal_(generator=generator)
        layer.t.normal_(generator=generator)


def test_linear() -> None:
    layer = BatchELinear(6, 4, seed=0, name="a")
    scaled(layer)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), torch.einsum("o,oi,i,bi->bo", layer.s, layer.weight, layer.t, x))


def test_conv2d_scales_inputs_and_outputs() -> None:
    layer = BatchEConv2d((4, 3, 3, 3), seed=0, name="a", padding=1)
    scaled(layer)
    x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    expected = F.conv2d(x * layer.t.view(-1, 1, 1), layer.weight, padding=1) * layer.s.view(-1, 1, 1)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [BatchELinear(3, 4, seed=0, name="a"), BatchEConv2d((4, 3, 3, 3), seed=0, name="a")])
def test_s_and_t_are_learned_and_the_weight_is_not_stored(layer: BatchELinear | BatchEConv2d) -> None:
    assert {name: len(value) for name, value in layer.named_parameters()} == {"s": 4, "t": 3}
    assert "weight" not in layer.state_dict()


def test_training(small: Scenario) -> None:
    method = make("batche", small)
    assert isinstance(method, BatchE)
    weights = buffers(method, "weight")
    for k, rate, steps in ((0, 1e-4, 2), (1, 1e-2, 3)):
        task = small[k]
        start = dict(method.start(task))
        s, t = arrays(start, ".s"), arrays(start, ".t")
        assert {abs(v) for values in (*s, *t) for v in values} == {1.0}
        step = RMSprop(rate)
        for x, y in batches(task, steps):
            found = gradients(x, y, [a[:, None] * w * b for a, w, b in zip(s, weights, t, strict=True)])
            for i, g in enumerate(found):
                by_s, by_t = (g * weights[i] * t[i]).sum(1), (g * weights[i] * s[i][:, None]).sum(0)
                if k == 0:
                    weights[i] = step(10 + i, weights[i], g * s[i][:, None] * t[i])
                s[i], t[i] = step(20 + i, s[i], by_s), step(30 + i, t[i], by_t)
        learn(method, task, steps)
        assert_predicts(method, task, [a[:, None] * w * b for a, w, b in zip(s, weights, t, strict=True)])
        for ours, reference in zip(buffers(method, "weight"), weights, strict=True):
            np.testing.assert_allclose(ours, reference, atol=1e-5)


def test_the_first_task_has_a_rate_of_its_own(stripes: Scenario) -> None:
    method, _ = make_method("batche", stripes)
    assert isinstance(method, BatchE)
    recipe = method.recipe()
    assert (recipe.rate, method.first_recipe(recipe).rate) == (0.01, 0.0001)
    other, _ = make_method("batche", stripes, settings={"first_rate": "0.5"})
    assert isinstance(other, BatchE)
    assert other.first_recipe(recipe).rate == 0.5


def test_states_have_these_keys(small: Scenario) -> None:
    method = make("batche", small)
    for task in small[:2]:
        learn(method, task, 1)
    own = {f"layers.{i}.{name}" for i in range(3) for name in ("s", "t")}
    assert method.task_state(small[1]).keys() == own
    assert method.task_state(small[0]).keys() == own | {f"shared/layers.{i}.weight" for i in range(3)}
    assert method.shared_state() == {}


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("batche"), image_counts("batche")
    assert flat.params_per_task == 1818
    assert round(flat.params_per_task_amortised) == 9285
    assert flat.bytes_per_task == 4 * 1818 + 4 * 268_800 // 36
    assert images.params_per_task == 1438
    assert images.params_per_task_amortised == pytest.approx(273_070 / 20 + 1438)
    assert images.bytes_per_task == 4 * (1438 + 1500) + 4 * 273_070 // 20
    assert images.note.count("statistics") == 1


def test_counts_on_mini_imagenet_are_the_paper_s() -> None:
    rows = Rows(torch.zeros(2, 3, 84, 84, dtype=torch.uint8), torch.tensor([0, 1]))
    tasks = [Task("t", rows, rows, tuple(range(5)))]
    scenario = Scenario("mini", tasks, seed=0, input_shape=(3, 84, 84), budget={"epochs": 250})
    method, _ = make_method("batche", scenario)
    assert method.counts(20).params_per_task_amortised == pytest.approx(568_000, rel=0.001)
