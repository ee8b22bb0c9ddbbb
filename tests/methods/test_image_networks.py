"""Baselines on images: the paper's counts, masks and signs, and all of them learning, kept and restored."""

import numpy as np
import pytest
import torch

from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.methods.image_networks import MaskedKernel, RankOneKernel, SignedKernel, published_density
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.scenarios import Scenario, Task, make_scenario

METHODS = ("neuromodnet", "supsup", "batche", "psp", "stl", "mtl", "finetune", "ewc", "replay")


def striped(task: int) -> Rows:
    generator = torch.Generator().manual_seed(task)
    y = torch.arange(48) % 2
    x = torch.randn(48, 3, 16, 16, generator=generator)
    stripes = torch.arange(16) % 4 // 2 * 4.0
    for row, label in enumerate(y):
        x[row] += stripes if (int(label) + task) % 2 else stripes[:, None]
    return Rows(x, y)


def scenario(shape: tuple[int, ...] = (3, 16, 16), classes: int = 2) -> Scenario:
    names = tuple(str(number) for number in range(classes))
    tasks = [Task(f"task-{k}", striped(k), striped(k + 10), names) for k in range(2)]
    return Scenario("stripes", tasks, seed=0, input_shape=shape, budget={"epochs": 250})


@pytest.mark.parametrize(
    ("name", "params", "amortised", "kept"),
    [
        ("neuromodnet", 4968, 4968, 4 * (4968 + 1500)),
        ("stl", 274_570, 274_570, 4 * (274_570 + 1500)),
        ("supsup", 273_070, 273_070, None),
        ("batche", 1_438, 273_070 / 20 + 1_438, 4 * (1_438 + 1500) + 4 * 273_070 // 20),
        ("psp", 273_070, 273_070, 8 + 4 * 1500 + 4 * 273_070 // 20),
        ("finetune", 274_570, 274_570 / 20, 4 * 1500 + 4 * 274_570 // 20),
        ("mtl", 274_570, 274_570 / 20, 4 * (274_570 + 1500) // 20),
        ("ewc", 274_570, 3 * 274_570 / 20, 4 * 1500 + 3 * 4 * 274_570 // 20),
        ("replay", 274_570, 274_570 / 20, 4 * 1500 + (4 * 274_570 + 20 * 16 * 3074) // 20),
    ],
)
def test_counts_on_cifar(name, params, amortised, kept):
    method, _ = make_method(name, scenario((3, 32, 32), 5))
    counts = method.counts(20)
    assert (counts.params_per_task, counts.params_per_task_amortised) == (params, pytest.approx(amortised))
    if kept is None:
        kept = 4 * 1500 + sum(-(-layer.scores.numel() // 8) for _, layer in method._masked())
    assert counts.bytes_per_task == kept
    assert counts.note.count("statistics") <= 1


def test_batche_on_mini_imagenet_counts_as_the_paper():
    method, _ = make_method("batche", scenario((3, 84, 84), 5))
    assert method.counts(20).params_per_task_amortised == pytest.approx(568_000, rel=0.001)


@pytest.mark.parametrize(
    ("name", "rate"),
    [("neuromodnet", 0.1), ("stl", 0.001), ("mtl", 0.001), ("finetune", 0.001), ("supsup", 0.001), ("psp", 0.001)],
)
def test_published_recipes(name, rate):
    method, overrides = make_method(name, scenario())
    recipe = method.recipe(**overrides)
    assert (recipe.optimizer, recipe.schedule, recipe.rate, recipe.epochs) == ("adam", "cosine", rate, 250)


def test_only_long_tasks_of_images_are_compiled():
    method, _ = make_method("neuromodnet", scenario())  # an epoch is one batch here
    assert [method.recipe(epochs=epochs).compile for epochs in (499, 500)] == [False, True]
    assert not method.recipe(epochs=500, compile=False).compile
    assert method.recipe(batches=3, compile=True).compile
    flat, _ = make_method("neuromodnet", make_scenario("rotated-digits", tasks=1))
    assert not flat.recipe(batches=1000).compile


def test_batche_trains_its_weights_slowly():
    method, _ = make_method("batche", scenario())
    recipe = method.recipe()
    assert (recipe.rate, method.first_recipe(recipe).rate) == (0.01, 0.0001)


def test_a_wrong_size_is_named():
    with pytest.raises(ConfigError, match='stl has no size "256" for images'):
        make_method("stl", scenario(), size="256")


def test_a_mask_is_learned_through_the_sizes_of_its_scores():
    """The formula by hand: dL/ds = dL/dkernel * W * sign(s), for kept weights and for those that are not."""
    layer = MaskedKernel((4, 3, 3, 3), seed=0, name="a", density=0.25)
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    kernel = (layer.weight * layer.mask(layer.scores)).detach().requires_grad_()
    torch.nn.functional.conv2d(x, kernel).square().sum().backward()
    layer(x).square().sum().backward()
    expected = kernel.grad * layer.weight * layer.scores.detach().sign()
    assert (layer.scores < 0).any()
    torch.testing.assert_close(layer.scores.grad, expected)


def test_supsup_learns_images_as_well_as_it_should():
    """With gradients of the wrong sign for half of its scores it stays near chance."""
    method, _ = make_method("supsup", scenario())
    task = scenario()[0]
    method.learn([task], method.recipe(batches=60, rate=0.01))
    logits = method.logits(task, task.test)
    assert float((logits.argmax(dim=1) == task.test.labels(slice(None))).float().mean()) > 0.9


def test_masks_keep_the_largest_scores_and_survive_packing():
    layer = MaskedKernel((4, 3, 3, 3), seed=0, name="a", density=0.25)
    sizes = layer.scores.detach().abs().flatten()
    kept = layer.kernel().detach().flatten() != 0
    assert int(kept.sum()) == 27
    assert sizes[kept].min() > sizes[~kept].max()
    mask = layer.mask(layer.scores.detach())
    assert torch.equal(layer.mask(layer.scores_of(mask.float())), mask)
    layer.kernel().sum().backward()
    assert torch.equal(layer.scores.grad, layer.weight * layer.scores.detach().sign())


def test_published_density():
    assert published_density((20, 10, 3, 3), 1) == pytest.approx(30 / 1800)
    assert published_density((20, 10, 3, 3), 32) == 0.5
    method, _ = make_method("supsup", scenario(), settings={"density_scale": "1"})
    kernel = method.model.blocks[2].conv1
    assert kernel.kept == 30


def test_rank_one_scales_inputs_and_outputs():
    layer = RankOneKernel((4, 3, 3, 3), seed=0, name="a", padding=1)
    with torch.no_grad():
        layer.s.copy_(torch.randn(4))
        layer.t.copy_(torch.randn(3))
    x = torch.randn(2, 3, 6, 6)
    spread = torch.nn.functional.conv2d(x * layer.t.view(-1, 1, 1), layer.weight, padding=1)
    torch.testing.assert_close(layer(x), spread * layer.s.view(-1, 1, 1), rtol=1e-4, atol=1e-5)


def test_signs_are_the_task_s():
    layer = SignedKernel((4, 3, 3, 3), seed=0, name="a")
    layer.turn_to(seed=1, name="a")
    first = layer.signs
    layer.turn_to(seed=2, name="a")
    assert first.shape == (1, 3, 3, 3)
    assert set(first.unique().tolist()) == {-1.0, 1.0}
    assert not torch.equal(first, layer.signs)


@pytest.mark.parametrize("name", METHODS)
def test_learns_images_and_is_restored(name):
    tasks = scenario()
    method, _ = make_method(name, tasks)
    recipe = method.recipe(epochs=2, batch_size=16)
    assert isinstance(recipe, Recipe)
    groups = [list(tasks)] if method.joint else [[task] for task in tasks]
    for group in groups:
        method.learn(group, recipe)
    logits = [method.logits(task, task.test) for task in tasks]
    assert all(np.isfinite(part.numpy()).all() and part.shape == (48, 2) for part in logits)
    again, _ = make_method(name, tasks)
    again.restore({task.name: method.task_state(task) for task in tasks}, method.shared_state())
    for task, before in zip(tasks, logits, strict=True):
        assert torch.equal(again.logits(task, task.test), before)
    if method.independent:
        assert any("running_mean" in key for key in method.task_state(tasks[0]))


def test_images_that_are_too_small_are_refused():
    with pytest.raises(ConfigError, match="have 8 x 8 pixels, ResNet-18 needs 16 x 16"):
        make_method("stl", scenario((3, 8, 8)))


@pytest.mark.parametrize(("option", "value"), [("recipe", "best"), ("depth", "3"), ("activation", "gelu")])
def test_options_of_flat_rows_are_refused(option, value):
    with pytest.raises(ConfigError, match="are for flat rows"):
        make_method("neuromodnet", scenario(), settings={option: value})
