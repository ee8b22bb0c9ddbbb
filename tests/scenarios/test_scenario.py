import pytest
import torch

from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.scenarios import Scenario, Task


def some_scenario(names: list[str]) -> Scenario:
    rows = Rows(torch.zeros(2, 3), torch.tensor([0, 1]))
    tasks = [Task(name, rows, rows, tuple(range(2 + at))) for at, name in enumerate(names)]
    return Scenario("some", tasks, seed=3, input_shape=(3,), budget={"batches": 5})


def test_a_scenario_is_a_sequence() -> None:
    scenario = some_scenario(["a", "b", "c"])
    assert len(scenario) == 3
    assert scenario[-1].name == "c"
    assert [task.name for task in scenario] == ["a", "b", "c"]
    assert scenario[0] in scenario
    with pytest.raises(IndexError):
        scenario[3]


def test_a_slice_is_a_scenario_too() -> None:
    part = some_scenario(["a", "b", "c"])[:2]
    assert isinstance(part, Scenario)
    assert [task.name for task in part] == ["a", "b"]
    assert (part.seed, part.input_shape, part.budget) == (3, (3,), {"batches": 5})
    assert part.num_classes == 3


def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'some' has two tasks named 'b'"):
        some_scenario(["a", "b", "b"])
