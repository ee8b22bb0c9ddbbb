"""Work of two processes, and of a real Ray cluster, gives what it gives here, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import psutil
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import crwn
from crwn.errors import ConfigError, CRWNError, DataError
from crwn.training import Step
from crwn.training.engines.processes import ProcessEngine
from crwn.training.engines.ray import RayEngine
from processes import kill_workers

# Workers cannot import this file: its functions travel as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


Workers = RayEngine | ProcessEngine


@pytest.fixture(scope="module", params=[RayEngine, ProcessEngine])
def engine(request: pytest.FixtureRequest) -> Iterator[Workers]:
    with request.param(threads=1, workers=2) as made:
        yield made


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class _Piece:
    """Work that calls a function of this file."""

    function: Callable[[Any, Any], Any]
    argument: Any

    def do(self, callbacks: Any = ()) -> Any:
        return self.function(self.argument, callbacks)


def _pieces(function: Callable[[Any, Any], Any], arguments: Iterable[Any]) -> list[_Piece]:
    return [_Piece(function, argument) for argument in arguments]


def _tasks(count: int) -> dict[str, Any]:
    x, y = load_digits(return_X_y=True)
    x = x[:400].astype("float32")
    generator = np.random.default_rng(0)
    return {f"task-{i:02d}": (x[:, generator.permutation(64)], y[:400]) for i in range(count)}


def _assert_equal(one: list[crwn.Context], other: list[crwn.Context]) -> None:
    assert [context.name for context in one] == [context.name for context in other]
    for a, b in zip(one, other, strict=True):
        assert a.classes == b.classes
        for name, value in a.tensors.items():
            torch.testing.assert_close(value, b.tensors[name], rtol=0, atol=0)


def _flynet() -> crwn.FlyNet:
    return crwn.FlyNet(64, 3000, 10, seed=0)


def test_equals_the_local_engine(engine: Workers) -> None:
    tasks = _tasks(12)
    here = crwn.Learner(_flynet()).learn_many(tasks, batches=20, progress=False)
    learner = crwn.Learner(_flynet())
    seen: dict[str, list[Step]] = {}

    def watch(step: Step) -> None:
        seen.setdefault(step.names[0], []).append(step)

    there = learner.learn_many(tasks, batches=20, progress=False, engine=engine, callbacks=[watch])
    _assert_equal(here, there)
    assert learner.tasks == sorted(tasks)
    # Every step of every stack is told once and in order.
    assert all([step.step for step in steps] == list(range(1, 21)) for steps in seen.values())
    assert sum(len(steps[0].names) for steps in seen.values()) == 12
    assert all(bool(torch.isfinite(step.losses).all()) for steps in seen.values() for step in steps)


def test_network_of_ones_own_and_changed_start(engine: Workers) -> None:
    def own() -> nn.Module:
        made: Any = crwn.neuromodulate(nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)), seed=0)
        made.classes, made.input_shape = 10, (64,)
        return cast(nn.Module, made)

    def changed() -> nn.Module:
        made = _flynet()
        nn.init.constant_(made.decoder.v, 0.01)
        return made

    tasks = _tasks(2)
    for make in (own, changed):
        here = crwn.Learner(make()).learn_many(tasks, batches=5, progress=False)
        _assert_equal(here, crwn.Learner(make()).learn_many(tasks, batches=5, progress=False, engine=engine))


def _dies_once(piece: tuple[str, int], callbacks: Any) -> int:
    """Number squared; numbers 0 and 1 kill the process that computes them first."""
    folder, number = piece
    earlier = list(Path(folder).glob(f"{number}-*"))
    (Path(folder) / f"{number}-{len(earlier)}").write_text(str(os.getpid()))
    if number < 2 and not earlier:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def test_killed_workers_are_replaced(engine: Workers, tmp_path: Path) -> None:
    done = dict(engine.run(_pieces(_dies_once, [(str(tmp_path), number) for number in range(3)])))
    assert done == {0: 0, 1: 1, 2: 4}
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "1-1", "2-0"]
    assert len({(tmp_path / name).read_text() for name in ("0-0", "1-0")}) == 2
    assert (tmp_path / "0-1").read_text() not in {(tmp_path / name).read_text() for name in ("0-0", "1-0")}


def test_killing_a_worker_while_it_learns_changes_nothing(engine: Workers) -> None:
    tasks = _tasks(4)
    here = crwn.Learner(_flynet()).learn_many(tasks, batches=600, progress=False)
    killed: list[int] = []
    steps: list[tuple[str, int]] = []

    def kill_in_the_middle(step: Step) -> None:
        steps.append((step.names[0], step.step))
        if step.step == 10 and not killed:
            killed.extend(kill_workers())

    learner = crwn.Learner(_flynet())
    there = learner.learn_many(tasks, batches=600, progress=False, engine=engine, callbacks=[kill_in_the_middle])
    assert killed
    _assert_equal(here, there)
    assert len(set(steps)) == len(steps), "steps that a replaced worker repeats are reported once"


def _fails(piece: str, callbacks: Any) -> None:
    if piece == "ours":
        raise DataError("row 3 has NaN or infinite values: clean the data first")
    if piece == "other":
        raise ZeroDivisionError("by zero")
    os._exit(1)


def _tell_slowly(piece: int, callbacks: Any) -> tuple[float, float]:
    began = time.time()
    for step in range(1, 9):
        time.sleep(0.1)  # long enough that some steps are sent on the way and some are not
        for callback in callbacks:
            callback(Step(step, 8, (f"{piece}",), torch.zeros(1), 0.1, {}))
    return began, time.time()


def test_a_worker_that_tells_of_its_steps_keeps_its_core(engine: Workers) -> None:
    """Two workers do two pieces at a time and never three: waiting for an answer would give their cores away."""
    told: dict[str, list[int]] = {}

    def listen(step: Step) -> None:
        told.setdefault(step.names[0], []).append(step.step)

    times = [result for _, result in engine.run(_pieces(_tell_slowly, range(8)), callbacks=[listen])]
    for began, _ in times:
        assert sum(start <= began < end for start, end in times) <= 2
    assert told == {f"{piece}": list(range(1, 9)) for piece in range(8)}, "every step once, in order"


def test_errors_come_back_as_one_line(engine: Workers) -> None:
    with pytest.raises(DataError, match=r"^row 3 has NaN or infinite values: clean the data first$"):
        list(engine.run(_pieces(_fails, ["ours"])))
    with pytest.raises(CRWNError, match="a worker failed: ZeroDivisionError"):
        list(engine.run(_pieces(_fails, ["other"])))
    with type(engine)(threads=1, retries=1) as impatient, pytest.raises(CRWNError, match="workers died 2 times"):
        list(impatient.run(_pieces(_fails, ["dies"])))


def test_cluster_of_others_is_left_running() -> None:
    import ray

    with RayEngine(threads=1, workers=1):
        with RayEngine(threads=1) as guest:
            assert list(guest.run(_pieces(_square, [3]))) == [(0, 9)]
        assert ray.is_initialized()


def test_stopped_in_the_middle_no_worker_is_left() -> None:
    before = psutil.Process().children()
    with ProcessEngine(threads=1, workers=2) as engine:
        running = engine.run(_pieces(_tell_slowly, range(4)))
        assert isinstance(running, Generator)
        next(running)
        workers = [child for child in psutil.Process().children() if child not in before]
        assert len(workers) == 2
        running.close()
        assert list(engine.run(_pieces(_square, [3]))) == [(0, 9)], "the engine can still be used"
    psutil.wait_procs(workers, timeout=60)
    assert not any(worker.is_running() for worker in workers)


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(CRWNError, match=r"cannot be sent to another process .*: learn with engine local"):
        list(ProcessEngine(workers=1).run(_pieces(_square, [threading.Lock()])))


def _square(piece: int, callbacks: Any) -> int:
    return piece * piece


def test_impossible_numbers_of_workers_are_named() -> None:
    with pytest.raises(ConfigError, match="workers must be at least 1, got -1"):
        ProcessEngine(workers=-1)
    with pytest.raises(ConfigError, match="threads must be at least 1, got 0"):
        ProcessEngine(threads=0)
