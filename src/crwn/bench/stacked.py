"""Our side of training benchmarks: a stack of tasks learned at once, in one process or in one for each core."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from crwn.bench.paper_style import BATCH
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario, make_scenario
from crwn.training.engines.processes import ProcessEngine
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.loop import Callback, Step, train
from crwn.training.precision import Precision
from crwn.training.recipe import make_recipe
from crwn.training.stacking import model_stack_size
from crwn.training.task import PreparedTask

# Batches of a task in the paper: both sides are measured on a part of them and extrapolated in the same way.
TASK_BATCHES = 1000
# The first steps of a measurement, which are not counted.
SKIP = 2
# Test rows that are predicted; the time of all is extrapolated like that of the batches.
EVALUATED = 2000


def task_rows(scenario: Scenario, count: int) -> list[PreparedTask]:
    """Return the training rows of the first tasks."""
    return [PreparedTask(task.name, task.train, task.classes) for task in scenario[:count]]


class StepTimer:
    """A callback that measures the seconds of training steps, the first ones left out."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def __call__(self, step: Step) -> None:
        self.marks.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """Mean seconds of a counted step."""
        return (self.marks[-1] - self.marks[SKIP - 1]) / (len(self.marks) - SKIP)


class Stacked:
    """As many tasks at once as the stacking rule allows."""

    def __init__(
        self, scenario: Scenario, width: int, kind: str, batches: int, seed: int, precision: Precision = "float32"
    ) -> None:
        (features,) = scenario.input_shape
        self.model = NeuroModNet(features, (width, width), scenario.num_classes, seed=seed, weights=kind)
        self.stack = min(len(scenario), model_stack_size(self.model, batch_size=BATCH))
        self.tasks = task_rows(scenario, self.stack)
        self.test = scenario[0].test
        self.batches = batches
        self.seed = seed
        self.precision = precision

    def seconds_per_step(self) -> float:
        """Train the whole stack and return the mean seconds of a step."""
        timer = StepTimer()
        recipe = make_recipe(batches=self.batches + SKIP, precision=self.precision)
        self.learned = train(self.model, self.tasks, recipe, seed=self.seed, callbacks=[timer])
        return timer.seconds

    def seconds_per_task(self) -> float:
        """Return the seconds of 1,000 batches divided among the stack's tasks, and of one task's evaluation."""
        step = self.seconds_per_step()
        part = self.test.select(torch.arange(min(EVALUATED, len(self.test))))
        began = time.perf_counter()
        accuracy(predict_logits(self.model, self.learned[0].tensors, part), part.labels(slice(None)))
        evaluation = (time.perf_counter() - began) * len(self.test) / len(part)
        return TASK_BATCHES * step / self.stack + evaluation


@dataclass(frozen=True)
class Measured:
    """What a worker process measures: the arguments of `Stacked`, with the data's name for the scenario."""

    data: str
    width: int
    kind: str
    batches: int
    seed: int
    precision: Precision = "float32"

    def do(self, callbacks: Sequence[Callback] = ()) -> float:
        return _stack(self).seconds_per_task()


class ManyProcesses:
    """Several cores, a process for each with a stack of its own (`--engine processes`)."""

    def __init__(self, engine: ProcessEngine, what: Measured) -> None:
        self.engine = engine
        self.what = what

    def seconds_per_task(self) -> float:
        """Return the seconds of a task when all processes learn at the same time."""
        count = self.engine.workers
        return max(seconds for _, seconds in self.engine.run([self.what] * count)) / count


@lru_cache(maxsize=2)
def _stack(what: Measured) -> Stacked:
    scenario = make_scenario(f"rotated-{what.data}", seed=what.seed, tasks=16)
    return Stacked(scenario, what.width, what.kind, what.batches, what.seed, what.precision)
