"""ResNet-18: the paper's counts, one network for every kind of layer, learning alone and stacked."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from crwn import Learner
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, DataError
from crwn.layers import context_names, context_tensors, learned_parameters
from crwn.models import NeuroModResNet, build, describe, fingerprint, resnet18
from crwn.models.functional import mixed_logits
from crwn.training import train
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


def statistics(model: nn.Module) -> int:
    tensors = context_tensors(model)
    return sum(value.numel() for name, value in tensors.items() if "running" in name)


def frozen(model: nn.Module) -> int:
    return sum(getattr(module, "frozen_parameters", 0) for module in model.modules())


@pytest.mark.parametrize(("width", "learned"), [(10, 4968), (20, 9888), (40, 19728), (60, 29568)])
def test_reduced_counts_are_the_paper_s(width: int, learned: int) -> None:
    model = NeuroModResNet(width=width, classes=5, seed=0)
    assert learned_parameters(model) == learned
    assert statistics(model) == width * 150
    if width == 10:
        assert frozen(model) == 273_070


def test_the_ordinary_network_has_the_paper_s_weights() -> None:
    def no_gain(channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels, affine=False)

    assert learned_parameters(resnet18()) == 274_570
    assert learned_parameters(resnet18(norm=no_gain)) == 273_070


def test_standard_counts() -> None:
    model = NeuroModResNet(width=64, classes=5, seed=0, stem="standard", input_shape=(3, 84, 84))
    assert frozen(model) == 11_169_472  # "about 11.17M"
    assert learned_parameters(model) == 31_656  # "about 31.6K"
    assert model(torch.zeros(2, 3, 84, 84)).shape == (2, 5)


def test_described_built_and_told_apart() -> None:
    model = NeuroModResNet(width=4, classes=3, seed=3, momentum=0.2, start="ones")
    again = build(describe(model))
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model.eval()(x), again.eval()(x))
    assert fingerprint(model) == fingerprint(again) != fingerprint(NeuroModResNet(width=4, classes=3, seed=4))
    assert (model.input_shape, model.classes) == ((3, 32, 32), 3)
    assert "blocks.7.conv2" in repr(model)


def test_wrong_inputs_and_settings_are_named() -> None:
    model = NeuroModResNet(width=2, classes=2, seed=0)
    with pytest.raises(DataError, match=r"shape \(4, 1, 32, 32\), this network takes images \[rows, 3"):
        model(torch.zeros(4, 1, 32, 32))
    with pytest.raises(ConfigError, match='unknown stem "big": choose one of small, standard'):
        NeuroModResNet(width=2, classes=2, seed=0, stem="big")


def tasks(count: int) -> list[PreparedTask]:
    """Stripes that lie or stand, in noise; every other task calls them the other way round."""
    made = []
    stripes = torch.arange(16) % 4 // 2 * 4.0
    for task in range(count):
        generator = torch.Generator().manual_seed(task)
        y = torch.arange(64) % 2
        x = torch.randn(64, 3, 16, 16, generator=generator)
        for row, label in enumerate(y):
            x[row] += stripes if (int(label) + task) % 2 else stripes[:, None]
        made.append(PreparedTask(f"task-{task}", Rows(x, y), range(2)))
    return made


RECIPE = Recipe(optimizer="adam", rate=0.03, schedule="cosine", batch_size=16, epochs=15)


def test_learns_keeps_its_statistics_and_leaves_the_model_alone() -> None:
    model = NeuroModResNet(width=4, classes=2, seed=0, input_shape=(3, 16, 16))
    before = {name: value.clone() for name, value in context_tensors(model).items()}
    (task,) = tasks(1)
    (learned,) = train(model, [task], RECIPE, seed=0)
    assert set(learned.tensors) == set(context_names(model))
    assert not torch.equal(learned.tensors["stem_norm.running_mean"], before["stem_norm.running_mean"])
    logits = predict_logits(model, learned.tensors, task.rows)
    assert accuracy(logits, task.rows.labels(slice(None))) > 0.9
    for name, value in context_tensors(model).items():
        assert torch.equal(value, before[name])
    assert torch.equal(predict_logits(model, learned.tensors, task.rows), logits)


def test_four_more_tasks_change_no_bit_of_the_first_nor_its_statistics() -> None:
    """Learned with one learner, with batch norm's running statistics as part of every context."""
    first, *more = [(task.name, task.rows.x.numpy(), task.rows.labels(slice(None)).numpy()) for task in tasks(5)]
    learner = Learner(NeuroModResNet(width=4, classes=2, seed=0, input_shape=(3, 16, 16)))
    learner.learn(*first, epochs=2, progress=False)
    before = learner.predict_proba(first[1], task=first[0])
    context = learner.context(first[0]).to_bytes()
    assert "stem_norm.running_var" in learner.context(first[0]).tensors
    for one in more:
        learner.learn(*one, epochs=2, progress=False)
    assert len(learner.tasks) == 5
    assert learner.predict_proba(first[1], task=first[0]).tobytes() == before.tobytes()
    assert learner.context(first[0]).to_bytes() == context


def test_a_stack_learns_what_each_task_learns_alone_and_mixed_rows_agree() -> None:
    model = NeuroModResNet(width=4, classes=2, seed=0, input_shape=(3, 16, 16)).double()
    pair = [
        PreparedTask(task.name, Rows(task.rows.x, task.rows.y, prepare=torch.Tensor.double), range(2))
        for task in tasks(2)
    ]
    recipe = RECIPE.model_copy(update={"epochs": 2, "optimizer": "sgd"})
    stacked = train(model, pair, recipe, seed=0)
    for task, together in zip(pair, stacked, strict=True):
        (alone,) = train(model, [task], recipe, seed=0)
        for name, value in alone.tensors.items():
            torch.testing.assert_close(together.tensors[name], value, rtol=1e-6, atol=1e-8)
    x = torch.cat([task.rows.inputs(slice(0, 3)) for task in pair])
    owner = [0, 0, 0, 1, 1, 1]
    gathered = {name: torch.stack([stacked[task].tensors[name] for task in owner]) for name in stacked[0].tensors}
    mixed = mixed_logits(model, gathered, x)
    model.eval()
    with torch.no_grad():
        apart = [functional_call(model, stacked[t].tensors, (x[i : i + 1],)) for i, t in enumerate(owner)]
    torch.testing.assert_close(mixed, torch.cat(apart), rtol=1e-6, atol=1e-8)
