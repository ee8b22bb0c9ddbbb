"""Recipes and stacks chosen for a model, and contexts made of what was trained."""

import numpy as np
import pytest
import torch

from crwn import FlyNet, NeuroModNet, Recipe
from crwn.errors import ConfigError
from crwn.learner.fit import choose_recipe, fit, group_tasks, sample_positions
from crwn.learner.prepare import prepare_task
from crwn.models import fingerprint
from crwn.training.task import PreparedTask

X = np.random.default_rng(0).normal(3, 2, size=(100, 4)).astype(np.float32)
Y = np.array(["no", "yes"] * 50)


def prepared(rows: int = 100, *, name: str = "t", validation: object = None) -> PreparedTask:
    return prepare_task(name, X[:rows], Y[:rows], shape=(4,), outputs=3, validation=validation)


def test_named_recipes_and_lengths() -> None:
    model = NeuroModNet(4, (8,), 2, seed=0, constant=False)
    assert choose_recipe(model, "paper", batches=None, epochs=None).schedule == "constant"
    best = choose_recipe(model, None, batches=7, epochs=None)
    assert (best.rate, best.schedule, best.batches) == (0.02, "cosine", 7)
    table = NeuroModNet(4, (8,), 2, seed=0)
    assert choose_recipe(table, None, batches=None, epochs=None, rows=400).steps(400) == 300
    assert choose_recipe(table, None, batches=None, epochs=None, rows=12_800).steps(12_800) == 3000
    assert choose_recipe(table, "paper", batches=None, epochs=None, rows=400).steps(400) == 1000
    own = choose_recipe(model, Recipe(optimizer="adam", batches=5), batches=None, epochs=3)
    assert (own.optimizer, own.batches, own.epochs) == ("adam", None, 3)
    with pytest.raises(ConfigError, match="fast"):
        choose_recipe(model, "fast", batches=None, epochs=None)
    with pytest.raises(ConfigError, match="batches"):
        choose_recipe(model, None, batches=0, epochs=None)
    with pytest.raises(ConfigError, match="both"):
        choose_recipe(model, None, batches=3, epochs=2)


def test_only_alike_tasks_are_stacked() -> None:
    model = FlyNet(4, 16, 3, seed=0, inputs_per_node=2)
    made = [prepared(), prepared(50), prepared(), prepared(62, validation=(X[:10], Y[:10])), prepared(62)]
    assert [len(group) for group in group_tasks(model, made, 128)] == [2, 1, 1, 1]
    sizes = [len(group) for group in group_tasks(model, [prepared()] * 20, 128)]
    assert (sum(sizes), len(sizes)) == (20, 2)
    assert max(sizes) <= 16


def test_contexts_come_with_what_task_inference_needs() -> None:
    model = NeuroModNet(4, (16,), 3, seed=0)
    groups = [[prepared(name="a"), prepared(name="b")], [prepared(50, name="c", validation=0.2)]]
    stacks = list(fit(model, groups, Recipe(batches=20), seed=0))
    assert [[context.name for context in stack] for stack in stacks] == [["a", "b"], ["c"]]
    (first, _), (last,) = stacks
    assert first.model == fingerprint(model)
    assert first.classes == ("no", "yes")
    assert first.info["sketch"] is not None
    assert first.info["own_entropy"]["rows"] == 100
    assert "accuracy" not in first.info, "of its own rows it is the training accuracy"
    assert "accuracy" in last.info, "of validation rows"
    same = next(fit(model, [[prepared(name="a")]], Recipe(batches=20), seed=0))[0]
    assert all(torch.allclose(same.tensors[key], value, atol=1e-5) for key, value in first.tensors.items())


@pytest.mark.parametrize(("rows", "count"), [(100, 30), (1000, 512), (7, 7), (3, 10), (0, 4)])
def test_a_sample_is_spread_over_all_rows(rows: int, count: int) -> None:
    found = sample_positions(rows, count)
    assert len(found) == min(rows, count)
    gaps = torch.diff(torch.cat([torch.tensor([-1]), found, torch.tensor([rows])]))
    assert gaps.min() >= 1
    assert gaps.max() <= 2 * max(1, -(-rows // count)), "no part of the rows is left out, the last one neither"
