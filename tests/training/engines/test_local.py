"""Work done here: in order, told to callbacks, each piece given as soon as it is done."""

import pytest
import torch

from crwn import NeuroModNet, Recipe, Rows
from crwn.errors import ConfigError
from crwn.training import Step, train
from crwn.training.engines import Engine, LocalEngine, Training, make_engine
from crwn.training.engines.processes import ProcessEngine
from crwn.training.task import PreparedTask


def work(name: str, *, rows: int = 20, batches: int = 2) -> Training:
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))
    task = PreparedTask(name, Rows(x, (x[:, 0] > 0).long()), range(2))
    return Training(NeuroModNet(4, (8,), 2, seed=0), [task], Recipe(batches=batches), seed=0)


def test_pieces_come_in_order_with_what_training_gives() -> None:
    pieces = [work("a"), work("b", rows=30)]
    done = list(LocalEngine().run(pieces))
    assert [number for number, _ in done] == [0, 1]
    for (_, (learned,)), piece in zip(done, pieces, strict=True):
        (expected,) = train(piece.model, piece.tasks, piece.recipe, seed=piece.seed)
        assert learned.name == expected.name
        assert all(torch.equal(learned.tensors[key], expected.tensors[key]) for key in expected.tensors)


def test_a_piece_is_given_before_the_next_begins() -> None:
    told: list[Step] = []
    running = LocalEngine().run([work("a"), work("b")], callbacks=[told.append])
    next(running)
    assert {step.names for step in told} == {("a",)}
    next(running)
    assert {step.names for step in told} == {("a",), ("b",)}


def test_engines_have_names() -> None:
    assert isinstance(make_engine("local"), LocalEngine)
    assert isinstance(make_engine("processes"), ProcessEngine)
    mine = LocalEngine()
    assert make_engine(mine) is mine
    assert isinstance(mine, Engine)
    with pytest.raises(ConfigError, match='unknown engine "cloud": choose local, processes or ray'):
        make_engine("cloud")
