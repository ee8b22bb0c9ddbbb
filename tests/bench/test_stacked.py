"""What a measured stack is made of, and how its steps are timed."""

from __future__ import annotations

import pytest

from crwn.bench.stacked import SKIP, Stacked, StepTimer, task_rows
from crwn.scenarios import make_scenario


def test_the_first_steps_are_not_counted() -> None:
    timer = StepTimer()
    timer.marks = [10.0, 20.0, 20.5, 21.0, 21.5, 22.0]
    assert SKIP == 2
    assert timer.seconds == pytest.approx(0.5)


def test_a_stack_learns_its_tasks_and_gives_seconds() -> None:
    scenario = make_scenario("rotated-digits", tasks=3)
    stacked = Stacked(scenario, 8, "gaussian", batches=3, seed=0)
    assert [task.name for task in stacked.tasks] == [task.name for task in scenario]
    assert stacked.seconds_per_task() > stacked.seconds_per_step() > 0
    assert len(stacked.learned) == stacked.stack == 3


def test_task_rows_are_those_of_the_first_tasks() -> None:
    scenario = make_scenario("rotated-digits", tasks=3)
    rows = task_rows(scenario, 2)
    assert [row.name for row in rows] == [scenario[0].name, scenario[1].name]
    assert [row.classes for row in rows] == [10, 10]
