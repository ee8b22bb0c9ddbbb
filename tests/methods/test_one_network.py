"""Methods that train one network: batch-norm statistics per task, one task at a time, and hooks for subclasses."""

from __future__ import annotations

import pytest
import torch

from crwn.errors import ConfigError
from crwn.methods import Finetune, Replay, make_method
from crwn.methods.replay import MixedRows
from crwn.scenarios import Scenario, Task
from crwn.training.task import PreparedTask
from reference_network import learn, make


def test_statistics_belong_to_their_task(stripes: Scenario) -> None:
    method, _ = make_method("finetune", stripes)
    assert isinstance(method, Finetune)
    for task in stripes:
        method.learn([task], method.recipe(batches=2))
    first, second = (method.task_state(task) for task in stripes)
    assert {name.rpartition(".")[2] for name in first} == {"running_mean", "running_var"}
    assert not torch.equal(first["stem_norm.running_mean"], second["stem_norm.running_mean"])
    for task, state in zip(stripes, (first, second), strict=True):
        used = method.tensors(task)
        assert all(torch.equal(used[name], value) for name, value in state.items())
        assert torch.equal(used["stem.weight"], method.shared_state()["stem.weight"])


def test_predictions_depend_on_the_task_where_there_are_statistics(small: Scenario, stripes: Scenario) -> None:
    assert not make("finetune", small).predictions_depend_on_task
    assert make("psp", small).predictions_depend_on_task
    assert make_method("finetune", stripes)[0].predictions_depend_on_task
    assert not make_method("mtl", stripes)[0].predictions_depend_on_task


def test_a_task_has_logits_before_it_is_learned(small: Scenario) -> None:
    method = make("finetune", small)
    learn(method, small[0], 2)
    assert method.logits(small[2], small[2].test).shape == (40, 3)
    assert method.task_state(small[2]) == {}


def test_several_tasks_at_once_are_an_error(small: Scenario) -> None:
    method = make("finetune", small)
    with pytest.raises(ConfigError, match="finetune learns one task after another, got 2 at once"):
        method.learn(list(small[:2]), method.recipe(batches=1))


def test_a_subclass_chooses_the_training_rows(small: Scenario) -> None:
    class FirstHalf(Finetune):
        def prepared(self, task: Task) -> PreparedTask:
            return PreparedTask(task.name, task.train.select(torch.arange(20)), task.classes)

    half = Task("t0", small[0].train.select(torch.arange(20)), small[0].test, small[0].classes)
    ours = FirstHalf(small, size="5", seed=5, options=FirstHalf.Options())
    learn(ours, small[0], 3)
    plain = make("finetune", small)
    learn(plain, half, 3)
    assert torch.equal(ours.logits(half, half.test), plain.logits(half, half.test))


def test_the_old_names_of_hooks_still_work(small: Scenario) -> None:
    with pytest.warns(DeprecationWarning, match="Old.lesson: rename it to prepared"):

        class Old(Replay):
            def lesson(self, task: Task) -> PreparedTask:
                rows: PreparedTask = super().lesson(task)  # type: ignore[misc]
                return PreparedTask(rows.name, rows.rows, range(rows.classes + 1))

    old = Old(small, size="5", seed=5, options=Old.Options())
    assert old.prepared(small[0]).classes == 4
    old.keep(small[0], old.weights)
    assert isinstance(old.prepared(small[1]).rows, MixedRows)

    with pytest.warns(DeprecationWarning, match="Older.answers_by_task: rename it to predictions_depend_on_task"):

        class Older(Finetune):
            @property
            def answers_by_task(self) -> bool:
                return True

    assert Older(small, size="5", seed=0, options=Older.Options()).predictions_depend_on_task
