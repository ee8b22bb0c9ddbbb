"""WhitenedResNet: its counts, what the head takes, learning alone and after others, mirror images, what it refuses."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from crwn import Learner
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, DataError
from crwn.layers import context_names, context_tensors, learned_parameters
from crwn.models import WhitenedResNet, fingerprint
from crwn.models.functional import mixed_logits
from crwn.training import train
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.recipe import make_recipe, residual_recipe
from crwn.training.task import PreparedTask

SHAPE = (3, 16, 16)


def small(**settings: object) -> WhitenedResNet:
    given: dict[str, object] = {"filters": 8, "channels": 8, "last": 16} | settings
    return WhitenedResNet(2, seed=0, input_shape=SHAPE, **given)  # type: ignore[arg-type]


def striped(task: int, count: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Stripes that lie or stand, in noise; every other task calls them the other way round."""
    y = torch.arange(count) % 2
    x = torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(task))
    stripes = torch.arange(16) % 4 // 2 * 4.0
    for row, label in enumerate(y):
        x[row] += stripes if (int(label) + task) % 2 else stripes[:, None]
    return x, y


def learn(model: WhitenedResNet, task: int = 0, epochs: int = 10) -> dict[str, torch.Tensor]:
    x, y = striped(task)
    recipe = make_recipe(**(residual_recipe() | {"epochs": epochs, "batch_size": 16}))
    return train(model, [PreparedTask(f"task-{task}", Rows(x, y), range(2))], recipe, seed=0)[0].tensors


def test_a_task_learns_no_more_parameters_than_in_the_paper_s_network() -> None:
    for width, paper in ((1, 4968), (2, 9888)):
        model = WhitenedResNet(classes=5, seed=0, width=width)
        assert 0.9 * paper < learned_parameters(model) <= paper
    names = context_names(model)
    assert not any(name.startswith("stem") for name in names)
    assert {name.rpartition(".")[2] for name in names} == {"v", "alpha", "running_mean", "running_var"}


def test_the_head_takes_cells_and_what_the_blocks_make() -> None:
    model = small().eval()
    x = striped(0)[0][:4]
    maps = model.stem(x)
    found = model.features(x)
    assert found.shape == (4, 16 * 9 + 16)
    cells = (F.adaptive_avg_pool2d(maps, 3) + 1e-3).sqrt() / (
        1 + 1e-5
    ) ** 0.5  # untrained statistics: mean 0, variance 1
    torch.testing.assert_close(found[:, : 16 * 9], cells.flatten(1), rtol=1e-5, atol=1e-5)
    assert model.branch is not None
    torch.testing.assert_close(found[:, 16 * 9 :], model.branch(maps))
    assert small(grid=0).features(x).shape == (4, 16)
    assert small(blocks=0).features(x).shape == (4, 16 * 9)
    wanted = (model.features(x) + model.features(x.flip(-1))) / 2 * 0.2
    torch.testing.assert_close(model(x), model.head(wanted))
    torch.testing.assert_close(small(mirror=False).eval()(x), model.head(0.2 * model.features(x)))


def test_learns_and_new_rows_are_predicted() -> None:
    model = small()
    before = {name: value.clone() for name, value in context_tensors(model).items()}
    learned = learn(model)
    x, y = striped(10, 200)  # an even number: the same classes as task 0
    assert accuracy(predict_logits(model, learned, Rows(x)), y) > 0.9
    assert accuracy(predict_logits(model, before, Rows(x)), y) < 0.8
    assert all(torch.equal(value, before[name]) for name, value in context_tensors(model).items())


@pytest.mark.parametrize("part", ["shortcut", "branch"])
def test_both_parts_learn(part: str) -> None:
    model = small()
    start, learned = context_tensors(model), learn(model, epochs=1)
    moved = [name for name in learned if name.startswith(part)]
    assert moved
    assert all(not torch.equal(learned[name], start[name]) for name in moved if not name.endswith("alpha"))


def test_a_learner_keeps_tasks_apart_and_mixed_rows_agree() -> None:
    learner = Learner(small())
    for task in range(2):
        learner.learn(f"task-{task}", *(part.numpy() for part in striped(task)), epochs=6, progress=False)
    x = np.concatenate([striped(task)[0][:8].numpy() for task in range(2)])
    names = ["task-0"] * 8 + ["task-1"] * 8
    mixed = learner.predict_proba(x, task=names)
    for task in range(2):
        rows = slice(8 * task, 8 * task + 8)
        np.testing.assert_allclose(
            mixed[rows], learner.predict_proba(x[rows], task=f"task-{task}"), rtol=1e-4, atol=1e-5
        )
        plain = learner.merge(f"task-{task}")
        with torch.no_grad():
            baked = plain(torch.from_numpy(x[rows])).softmax(dim=1).numpy()
        np.testing.assert_allclose(baked, mixed[rows], rtol=1e-3, atol=1e-4)
    first = learner.predict_proba(x[:8], task="task-0")
    learner.learn("third", *(part.numpy() for part in striped(2)), epochs=1, progress=False)
    assert learner.predict_proba(x[:8], task="task-0").tobytes() == first.tobytes()


def test_rows_with_contexts_of_their_own() -> None:
    model = small()
    contexts = [learn(model, task, epochs=2) for task in range(2)]
    x = striped(0)[0][:4]
    gathered = {name: torch.stack([contexts[row % 2][name] for row in range(4)]) for name in contexts[0]}
    found = mixed_logits(model, gathered, x)
    for row in range(4):
        alone = predict_logits(model, contexts[row % 2], Rows(x[row : row + 1]))
        torch.testing.assert_close(found[row : row + 1], alone, rtol=1e-4, atol=1e-5)


def test_fingerprints_tell_settings_and_seeds_apart() -> None:
    models = [small(), small(head_scale=0.5), small(sides=(4, 6)), WhitenedResNet(2, seed=1, input_shape=SHAPE)]
    assert len({fingerprint(model) for model in models}) == len(models)


def test_what_it_refuses() -> None:
    with pytest.raises(DataError, match=r"shape \(4, 3, 16, 17\), this network takes images \[rows, 3, 16, 16\]"):
        small()(torch.zeros(4, 3, 16, 17))
    with pytest.raises(ConfigError, match="blocks must be at least 0, got -1"):
        small(blocks=-1)
    with pytest.raises(ConfigError, match="grid 0 and blocks 0 leave nothing"):
        small(blocks=0, grid=0)
    for scale in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match=f"head_scale must be over 0 and finite, got {scale}"):
            small(head_scale=scale)
