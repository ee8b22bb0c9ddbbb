"""The training loop: stacked equals one by one, and everything else a task may need on the way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from crwn import FlyNet, NeuroModNet, Recipe
from crwn.data.dataset import Rows, visiting_order
from crwn.errors import CRWNError, DataError
from crwn.layers import ModulatedLinear, context_tensors
from crwn.layers.weights import named_generator
from crwn.models.functional import replica
from crwn.training import Step, train
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.task import PreparedTask
from digit_rows import Tensors, same_tensors


def tasks_of(digit_tensors: Tensors, count: int, rows: int = 200) -> list[PreparedTask]:
    """Permuted digits, a different permutation a task."""
    x, y = digit_tensors
    made = []
    for k in range(count):
        order = torch.from_numpy(named_generator("pixels", k).permutation(64))
        made.append(PreparedTask(f"task-{k}", Rows(x[:rows][:, order], y[:rows]), range(10)))
    return made


@pytest.mark.parametrize("schedule", ["constant", "cosine", "onecycle"])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "rmsprop", "rate": 0.01},
        {"optimizer": "rmsprop", "rate": 0.01, "momentum": 0.5, "weight_decay": 0.01},
        {"optimizer": "adam", "rate": 0.01},
        {"optimizer": "sgd", "rate": 0.05, "momentum": 0.9},
    ],
    ids=lambda settings: settings["optimizer"] + ("+" if len(settings) > 3 else ""),
)
def test_stacked_equals_one_by_one(
    digit_tensors: Tensors, model: NeuroModNet, settings: dict[str, Any], schedule: str
) -> None:
    recipe = Recipe(schedule=schedule, batches=12, batch_size=64, **settings)
    tasks = tasks_of(digit_tensors, 3)
    together = train(model, tasks, recipe, seed=0)
    for task, found in zip(tasks, together, strict=True):
        (alone,) = train(model, [task], recipe, seed=0)
        assert (found.name, found.steps) == (alone.name, alone.steps) == (task.name, 12)
        assert found.loss == pytest.approx(alone.loss, rel=1e-3)
        for name in alone.tensors:
            assert torch.allclose(found.tensors[name], alone.tensors[name], rtol=1e-3, atol=2e-4), name


def test_stacked_flynets_equal_single_ones(digit_tensors: Tensors) -> None:
    model = FlyNet(64, 320, 10, seed=0)
    tasks, recipe = tasks_of(digit_tensors, 3), Recipe(batches=15, batch_size=64)
    for found, task in zip(train(model, tasks, recipe, seed=0), tasks, strict=True):
        alone = train(model, [task], recipe, seed=0)[0].tensors
        assert torch.allclose(found.tensors["decoder.v"], alone["decoder.v"], atol=2e-4)


def test_the_same_call_gives_the_same_bits_and_it_learns(digit_tensors: Tensors, model: NeuroModNet) -> None:
    (task,) = tasks_of(digit_tensors, 1, rows=800)
    recipe = Recipe(batches=80)
    one, two = (train(model, [task], recipe, seed=0)[0] for _ in range(2))
    assert same_tensors(one.tensors, two.tensors)
    assert accuracy(predict_logits(model, one.tensors, task.rows), digit_tensors[1][:800]) > 0.8
    assert not same_tensors(one.tensors, train(model, [task], recipe, seed=1)[0].tensors)


def test_the_model_given_is_left_as_it_was(digit_tensors: Tensors) -> None:
    model = NeuroModNet(64, (48,), 10, seed=0, weights="hadamard").eval()
    everything = {name: value.clone() for name, value in [*model.named_parameters(), *model.named_buffers()]}
    train(model, tasks_of(digit_tensors, 2), Recipe(batches=3), seed=0)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        assert torch.equal(value, everything[name]), name


def test_a_replica_shares_what_is_frozen_and_nothing_else(model: NeuroModNet) -> None:
    copy = replica(model)
    for ours, theirs in zip(copy.buffers(), model.buffers(), strict=True):
        assert ours.data_ptr() == theirs.data_ptr()
    for learned, original in zip(copy.parameters(), model.parameters(), strict=True):
        assert learned.data_ptr() != original.data_ptr()


def test_batches_depend_on_seed_and_name_alone(digit_tensors: Tensors, model: NeuroModNet) -> None:
    """The tensors after one step are those of the batch that the visiting order says."""
    (task,) = tasks_of(digit_tensors, 1)
    found = train(model, [task], Recipe(optimizer="sgd", rate=0.1, batches=1, batch_size=16), seed=3)[0].tensors
    at = next(visiting_order(200, 16, 1, seed=3, name="task-0"))
    loss = nn.functional.cross_entropy(model(task.rows.inputs(at)), task.rows.labels(at))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for (name, value), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert torch.allclose(found[name], value - 0.1 * gradient, atol=1e-6), name


def test_sample_weights_equal_repeated_rows(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors[0][:40], digit_tensors[1][:40]
    twice = torch.arange(40) % 3 == 0
    weighted = Rows(x, y, weight=1.0 + twice.float())
    repeated = Rows(torch.cat([x, x[twice]]), torch.cat([y, y[twice]]))
    recipe = Recipe(batches=10, batch_size=100)
    one, two = (train(model, [PreparedTask("a", rows, range(10))], recipe, seed=0)[0] for rows in (weighted, repeated))
    for name in one.tensors:
        assert torch.allclose(one.tensors[name], two.tensors[name], rtol=1e-3, atol=1e-4), name


def test_rows_of_weight_zero_teach_nothing(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors[0][:20], digit_tensors[1][:20]
    wrong = torch.cat([y, (y + 1) % 10])
    rows = Rows(torch.cat([x, x]), wrong, weight=torch.cat([torch.ones(20), torch.zeros(20)]))
    recipe = Recipe(batches=5, batch_size=64)
    with_them = train(model, [PreparedTask("a", rows, range(10))], recipe, seed=0)[0].tensors
    without = train(model, [PreparedTask("a", Rows(x, y), range(10))], recipe, seed=0)[0].tensors
    assert all(torch.allclose(with_them[name], without[name], atol=1e-4) for name in without)


def test_classes_a_task_does_not_have_are_masked(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors
    few = y < 3
    rows = Rows(x[few][:96], y[few][:96])
    (found,) = train(model, [PreparedTask("three", rows, range(3))], Recipe(batches=30), seed=0)
    logits = predict_logits(model, found.tensors, rows, classes=3)
    assert logits.shape == (96, 3)
    assert accuracy(logits, y[few][:96]) > 0.9
    mixed = train(
        model,
        [PreparedTask("three", rows, range(3)), PreparedTask("ten", Rows(x[:96], y[:96]), range(10))],
        Recipe(batches=30),
        seed=0,
    )
    for name in found.tensors:
        assert torch.allclose(mixed[0].tensors[name], found.tensors[name], rtol=1e-2, atol=1e-3), name


def test_callbacks_are_called_after_every_step(digit_tensors: Tensors, model: NeuroModNet) -> None:
    told: list[Step] = []
    recipe = Recipe(batches=6, schedule="cosine", rate=0.2, optimizer="sgd")
    learned = train(model, tasks_of(digit_tensors, 2), recipe, seed=0, callbacks=[told.append])
    assert [one.step for one in told] == [1, 2, 3, 4, 5, 6]
    assert [one.rate for one in told] == pytest.approx([recipe.rate_at(step, 6) for step in range(6)])
    assert told[0].rate == 0.2
    assert told[0].names == ("task-0", "task-1")
    assert [float(loss) for loss in told[-1].losses] == [one.loss for one in learned]
    assert told[0].tensors["layers.0.v"].shape == (2, 64)


def test_a_rate_of_nearly_zero_leaves_the_start(digit_tensors: Tensors, model: NeuroModNet) -> None:
    start = context_tensors(model)
    found = train(model, tasks_of(digit_tensors, 1), Recipe(batches=2, rate=1e-12, optimizer="sgd"), seed=0)[0].tensors
    assert all(torch.allclose(found[name], start[name]) for name in start)


def test_tasks_can_start_from_contexts_of_their_own(digit_tensors: Tensors, model: NeuroModNet) -> None:
    tasks, recipe = tasks_of(digit_tensors, 2), Recipe(batches=5)
    first = train(model, tasks, recipe, seed=0)
    again = train(model, tasks, recipe, seed=0, start=[one.tensors for one in first])
    for before, after, task in zip(first, again, tasks, strict=True):
        alone = train(model, [task], recipe, seed=0, start=[before.tensors])[0]
        assert torch.allclose(after.tensors["layers.0.v"], alone.tensors["layers.0.v"], atol=2e-4)
        assert after.loss < before.loss


def test_extra_loss_is_added(digit_tensors: Tensors, model: NeuroModNet) -> None:
    def pull(work: nn.Module, tensors: dict[str, torch.Tensor], step: int) -> torch.Tensor:
        return 1e3 * torch.stack([(value - 2.0).square().sum() for value in tensors.values()]).sum()

    recipe = Recipe(batches=60, optimizer="adam", rate=0.2)
    found = train(model, tasks_of(digit_tensors, 2), recipe, seed=0, extra_loss=pull)
    assert float((found[1].tensors["layers.0.v"] - 2).abs().mean()) < 0.3


def test_augmented_batches_are_the_same_in_every_run(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors[0][:100], digit_tensors[1][:100]
    rows = Rows(x, y, augment=lambda batch, random: batch + float(random.normal()))
    one, two = (
        train(model, [PreparedTask("a", rows, range(10))], Recipe(batches=4), seed=0)[0].tensors for _ in range(2)
    )
    plain = train(model, [PreparedTask("a", Rows(x, y), range(10))], Recipe(batches=4), seed=0)[0].tensors
    assert same_tensors(one, two)
    assert not same_tensors(one, plain)


class TestCheckpoint:
    @pytest.mark.parametrize(
        "settings",
        [
            {"optimizer": "rmsprop"},
            {"optimizer": "rmsprop", "momentum": 0.9},
            {"optimizer": "adam"},
            {"optimizer": "sgd"},
            {"optimizer": "sgd", "momentum": 0.9},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("count", [1, 3])
    def test_a_killed_run_goes_on_with_the_same_bits(
        self, digit_tensors: Tensors, model: NeuroModNet, settings: dict[str, Any], count: int, tmp_path: Path
    ) -> None:
        tasks, recipe = tasks_of(digit_tensors, count), Recipe(batches=9, schedule="cosine", **settings)
        whole = train(model, tasks, recipe, seed=0)

        def die(step: Step) -> None:
            if step.step == 6:
                raise KeyboardInterrupt

        def checkpoint() -> Checkpoint:
            return Checkpoint(tmp_path / "state.safetensors", "mine", seconds=0)

        with pytest.raises(KeyboardInterrupt):
            train(model, tasks, recipe, seed=0, callbacks=[die], checkpoint=checkpoint())
        told: list[Step] = []
        resumed = train(model, tasks, recipe, seed=0, callbacks=[told.append], checkpoint=checkpoint())
        assert told[0].step == 6
        for one, two in zip(whole, resumed, strict=True):
            assert same_tensors(one.tensors, two.tensors)
            assert one.loss == two.loss

    def test_killed_after_the_last_step_it_still_has_a_loss(
        self, digit_tensors: Tensors, model: NeuroModNet, tmp_path: Path
    ) -> None:
        tasks, recipe = tasks_of(digit_tensors, 1), Recipe(batches=4)
        first = train(model, tasks, recipe, seed=0, checkpoint=Checkpoint(tmp_path / "s", "mine", seconds=0))
        again = train(model, tasks, recipe, seed=0, checkpoint=Checkpoint(tmp_path / "s", "mine", seconds=0))
        assert math.isfinite(again[0].loss)
        assert first[0].loss == again[0].loss
        assert same_tensors(first[0].tensors, again[0].tensors)


class TestBadInput:
    def test_nothing_to_learn(self, digit_tensors: Tensors, model: NeuroModNet) -> None:
        with pytest.raises(DataError, match="no tasks to learn"):
            train(model, [], Recipe(), seed=0)
        empty = PreparedTask("empty", Rows(torch.zeros(0, 64), torch.zeros(0).long()), range(10))
        with pytest.raises(DataError, match='no rows to learn from in task "empty"'):
            train(model, [empty], Recipe(), seed=0)

    def test_different_lengths_cannot_be_stacked(self, digit_tensors: Tensors, model: NeuroModNet) -> None:
        tasks = [tasks_of(digit_tensors, 1, rows)[0] for rows in (100, 90)]
        with pytest.raises(DataError, match=r"equally many rows, got \[100, 90\]"):
            train(model, tasks, Recipe(batches=1), seed=0)

    def test_divergence_is_said_with_the_task_and_the_rate(self, digit_tensors: Tensors, model: NeuroModNet) -> None:
        good, bad = tasks_of(digit_tensors, 2)
        bad = PreparedTask("wild", Rows(bad.rows.x * 1e30, bad.rows.y), range(10))
        with pytest.raises(CRWNError, match=r'learning task "wild" diverged after 30 batches at rate 0.5: lower'):
            train(model, [good, bad], Recipe(batches=30, rate=0.5, optimizer="sgd"), seed=0)

    def test_rows_of_the_wrong_width(self, digit_tensors: Tensors, model: NeuroModNet) -> None:
        rows = Rows(digit_tensors[0][:20, :60], digit_tensors[1][:20])
        for count in (1, 2):
            with pytest.raises(DataError, match="rows have 60 features, this layer takes 64"):
                train(model, [PreparedTask(f"{k}", rows, range(10)) for k in range(count)], Recipe(batches=1), seed=0)


def test_autocast_learns_nearly_the_same(digit_tensors: Tensors, model: NeuroModNet) -> None:
    tasks, recipe = tasks_of(digit_tensors, 2), Recipe(batches=30)
    exact = train(model, tasks, recipe, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = train(model, tasks, recipe, seed=0)
    for one, two in zip(exact, rough, strict=True):
        assert two.tensors["layers.0.v"].dtype == torch.float32
        assert two.loss == pytest.approx(one.loss, abs=0.2)


def test_normalisation_statistics_are_learned_per_task(digit_tensors: Tensors) -> None:
    """Any module can be trained in a stack; statistics of its normalisation come back with the context."""
    norm = nn.BatchNorm1d(20, affine=False)
    model = nn.Sequential(ModulatedLinear(64, 20, seed=0, name="a"), norm, ModulatedLinear(20, 10, seed=0))
    # Not RMSprop: the loss does not depend on the scale before a normalisation, and it would magnify that zero's noise.
    tasks, recipe = tasks_of(digit_tensors, 2), Recipe(batches=4, optimizer="sgd")
    together = train(model, tasks, recipe, seed=0)
    for found, task in zip(together, tasks, strict=True):
        alone = train(model, [task], recipe, seed=0)[0].tensors
        assert torch.allclose(found.tensors["1.running_mean"], alone["1.running_mean"], atol=1e-4)
        assert float(found.tensors["1.running_mean"].abs().max()) > 0
    assert norm.running_mean is not None
    assert torch.equal(norm.running_mean, torch.zeros(20))
