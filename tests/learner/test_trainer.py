"""What a task starts from, and that groups are stored as they are trained."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from crwn import Learner, NeuroModNet
from crwn.contexts import Context
from crwn.contexts.bank import ResidentStack, open_bank
from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.layers import context_tensors
from crwn.learner.fit import fit
from crwn.learner.prepare import prepare_task
from crwn.learner.tables import table_network
from crwn.learner.trainer import Trainer
from crwn.models import fingerprint
from crwn.training.recipe import make_recipe
from crwn.training.task import PreparedTask

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def trainer() -> Trainer:
    model = NeuroModNet(4, (32,), 2, seed=0)
    shapes = {name: tuple(tensor.shape) for name, tensor in context_tensors(model).items()}
    resident = ResidentStack(open_bank(None, model=fingerprint(model)), shapes, capacity=8)
    return Trainer(model, resident, torch.device("cpu"), ForkSafeLock(Protects.MODEL), seed=0)


def sign_of(column: int, name: str | None = None) -> PreparedTask:
    y = (X[:, column] > 0).long()
    return prepare_task(name or f"column {column}", X, y, shape=(4,), outputs=2)


def test_groups_are_stored_as_they_are_trained(trainer: Trainer) -> None:
    seen: list[tuple[str, ...]] = []
    groups = [[sign_of(0), sign_of(1)], [sign_of(2)]]
    recipe = make_recipe(optimizer="adam", rate=0.05, batches=40)

    def record(step: object) -> None:
        seen.append(tuple(trainer.resident.bank.names()))

    contexts = trainer.fit(groups, recipe, replace=False, progress=False, callbacks=[record])
    assert [context.name for context in contexts] == ["column 0", "column 1", "column 2"]
    assert list(dict.fromkeys(seen)) == [(), ("column 0", "column 1")]

    bank = trainer.resident.bank
    new = sign_of(1, "again")
    assert trainer.start(new, None, resume=False) is None
    named, nearest = (trainer.start(new, start, resume=False) for start in ("column 0", "nearest"))
    assert named is not None
    assert nearest is not None
    assert all(torch.equal(named[0][key], value) for key, value in bank.get("column 0").tensors.items())
    assert all(torch.equal(nearest[0][key], value) for key, value in bank.get("column 1").tensors.items())
    own = trainer.start(sign_of(2), None, resume=True)
    assert own is not None
    assert all(torch.equal(own[0][key], value) for key, value in bank.get("column 2").tensors.items())
    with pytest.raises(ConfigError, match='both resume and start="column 0" are given'):
        trainer.start(sign_of(2), "column 0", resume=True)


def test_no_task_can_be_the_nearest_of_more_classes(trainer: Trainer) -> None:
    two, three = (PreparedTask("new", Rows(X, torch.arange(60) % classes), range(classes)) for classes in (2, 3))
    assert trainer.best_start(two) is None
    trainer.fit([[sign_of(0)]], make_recipe(batches=2), replace=False, progress=False)
    assert trainer.best_start(two) == "column 0"
    assert trainer.best_start(three) is None


@pytest.mark.parametrize(("column", "trained"), [(0, 2), (None, 3)])
def test_weight_decay_is_tried_unless_all_rows_held_out_are_right(
    column: int | None, trained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One training measures, one learns from all rows; where the labels are noise, one between them tries decay."""
    calls: list[int] = []

    def counting(*args: Any, **kwargs: Any) -> Iterator[list[Context]]:
        calls.append(1)
        return fit(*args, **kwargs)

    monkeypatch.setattr("crwn.learner.trainer.fit", counting)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 4)).astype("float32") * 9
    y = draw.integers(0, 2, 200) if column is None else x[:, column] > 0
    x[:, 0] += 9 * np.sign(x[:, 0])
    learner = Learner(table_network(4, 2, rows=200))
    context = learner.learn("a", x, y, batches=60, validation=0.2, refit=True, progress=False)
    assert (context.info.accuracy == 100.0) == (trained == 2)
    assert len(calls) == trained
