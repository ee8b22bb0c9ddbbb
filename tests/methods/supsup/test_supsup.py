"""SupSup against its formula: the layers and their straight-through gradients, training, and packed masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from crwn.errors import ConfigError
from crwn.methods import SupSup, make_method
from crwn.methods.supsup import SupSupConv2d, SupSupLinear
from crwn.methods.supsup.supsup import published_density
from crwn.scenarios import Scenario
from crwn.training.evaluation import accuracy
from reference_network import CountsOf, RMSprop, assert_predicts, batches, buffers, gradients, learn, make, parameters


def images(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(seed))


def test_linear() -> None:
    layer = SupSupLinear(6, 4, seed=0, name="a")
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    kept = (layer.scores.detach() >= 0).float()
    assert 0 < int(kept.sum()) < kept.numel()
    weight = (layer.weight * kept).requires_grad_()
    torch.testing.assert_close(layer(x), x @ weight.T)
    (by_weight,) = torch.autograd.grad((x @ weight.T).square().sum(), weight)
    (by_scores,) = torch.autograd.grad(layer(x).square().sum(), layer.scores)
    torch.testing.assert_close(by_scores, by_weight * layer.weight)


def test_conv2d_keeps_the_largest_scores() -> None:
    layer = SupSupConv2d((4, 3, 3, 3), seed=0, name="a", density=0.25)
    sizes = layer.scores.detach().abs().flatten()
    kept = layer.kernel().detach().flatten() != 0
    assert int(kept.sum()) == 27
    assert sizes[kept].min() > sizes[~kept].max()
    torch.testing.assert_close(layer(images()), F.conv2d(images(), layer.weight * kept.view(4, 3, 3, 3)))


def test_conv2d_gradient() -> None:
    """`dL/dscores = dL/dkernel * W * sign(scores)`, for weights that are kept and for those that are not."""
    layer = SupSupConv2d((4, 3, 3, 3), seed=0, name="a", density=0.25)
    kernel = (layer.weight * layer.mask(layer.scores)).detach().requires_grad_()
    (by_kernel,) = torch.autograd.grad(F.conv2d(images(), kernel).square().sum(), kernel)
    (by_scores,) = torch.autograd.grad(layer(images()).square().sum(), layer.scores)
    assert (layer.scores < 0).any()
    torch.testing.assert_close(by_scores, by_kernel * layer.weight * layer.scores.detach().sign())


@pytest.mark.parametrize("layer", [SupSupLinear(12, 9, seed=0, name="a"), SupSupConv2d((4, 3, 3, 3), seed=0, name="a")])
def test_start_and_masks(layer: SupSupLinear | SupSupConv2d) -> None:
    fan_in = layer.weight[0].numel()
    torch.testing.assert_close(layer.weight.abs(), torch.full_like(layer.weight, (2 / fan_in) ** 0.5))
    assert len(set(layer.weight.flatten().tolist())) == 2
    assert 0.8 / fan_in**0.5 < float(layer.scores.detach().abs().max()) <= 1 / fan_in**0.5
    assert [name for name, _ in layer.named_parameters()] == ["scores"]
    assert "weight" not in layer.state_dict()
    mask = layer.mask(layer.scores.detach())
    assert torch.equal(layer.mask(layer.scores_of(mask.float())), mask)


def test_training(small: Scenario) -> None:
    method, task = make("supsup", small), small[0]
    frozen, scores = buffers(method, "weight"), parameters(method, "scores")
    step = RMSprop(0.02)
    for x, y in batches(task, 3):
        effective = [w * (s >= 0) for w, s in zip(frozen, scores, strict=True)]
        # Straight through: the gradient of the effective weight, times the frozen one.
        through = [g * w for g, w in zip(gradients(x, y, effective), frozen, strict=True)]
        scores = [step(i, s, g) for i, (s, g) in enumerate(zip(scores, through, strict=True))]
    learn(method, task, 3, rate=0.02)
    assert_predicts(method, task, [w * (s >= 0) for w, s in zip(frozen, scores, strict=True)])


def test_learns_images(stripes: Scenario) -> None:
    """With gradients of the wrong sign for half of the scores the accuracy stays near chance."""
    method, _ = make_method("supsup", stripes)
    task = stripes[0]
    method.learn([task], method.recipe(batches=60, rate=0.01))
    assert accuracy(method.logits(task, task.test), task.test.labels(slice(None))) > 0.9


def test_published_density(stripes: Scenario) -> None:
    assert published_density((20, 10, 3, 3), 1) == pytest.approx(30 / 1800)
    assert published_density((20, 10, 3, 3), 32) == 0.5
    method, _ = make_method("supsup", stripes, settings={"density_scale": "1"})
    assert isinstance(method, SupSup)
    layer = method.model.get_submodule("blocks.2.conv1")
    assert isinstance(layer, SupSupConv2d)
    assert layer.kept == 30


def test_density_is_for_images(small: Scenario) -> None:
    for settings in ({"density": "0.2"}, {"density_scale": "2"}):
        with pytest.raises(ConfigError, match="are for images"):
            make("supsup", small, **settings)


def test_states_are_packed_masks(small: Scenario) -> None:
    method = make("supsup", small)
    learn(method, small[0], 1)
    state = method.task_state(small[0])
    assert {name: (value.dtype, len(value)) for name, value in state.items()} == {
        "layers.0.scores": (torch.uint8, 4),  # 5 * 6 bits
        "layers.1.scores": (torch.uint8, 4),
        "layers.2.scores": (torch.uint8, 2),
    }
    assert isinstance(method, SupSup)
    for name, scores in method.context(small[0]).items():
        bits = np.unpackbits(state[name].numpy(), count=scores.numel())
        np.testing.assert_array_equal(bits.reshape(scores.shape), (scores >= 0).numpy())


def test_counts(flat_counts: CountsOf, image_counts: CountsOf) -> None:
    flat, images = flat_counts("supsup"), image_counts("supsup")
    assert (flat.params_per_task, flat.params_per_task_amortised) == (268_800, 268_800)
    assert flat.bytes_per_task == 268_800 // 8
    assert (images.params_per_task, images.params_per_task_amortised) == (273_070, 273_070)
    # Every layer's bits fill whole bytes, and 1500 batch-norm statistics are float32.
    assert 4 * 1500 + 273_070 // 8 < images.bytes_per_task < 4 * 1500 + 273_070 // 8 + 21
    assert images.note.count("statistics") == 1
