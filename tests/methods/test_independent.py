"""Methods whose tasks are independent: stacks, stack sizes, and predictions that later tasks do not change."""

from __future__ import annotations

import pytest
import torch

from crwn.errors import ModelError, TaskError
from crwn.methods import METHODS, make_method
from crwn.scenarios import Scenario, Task, make_scenario
from reference_network import model_of
from small_methods import make_small

INDEPENDENT = ["neuromodnet", "flynet", "supsup", "batche", "stl"]


@pytest.mark.parametrize(
    ("name", "settings"), [(name, {}) for name in INDEPENDENT] + [("neuromodnet", {"pretrained": "true"})]
)
def test_a_stack_learns_what_its_tasks_learn_alone(
    name: str, settings: dict[str, str], rotated_digits: Scenario
) -> None:
    assert METHODS[name].independent
    alone, stacked = make_small(name, rotated_digits, settings), make_small(name, rotated_digits, settings)
    for task in rotated_digits:
        alone.learn([task], alone.recipe(batches=12))
    stacked.learn(list(rotated_digits), stacked.recipe(batches=12))
    for task in rotated_digits:
        one, many = alone.logits(task, task.test), stacked.logits(task, task.test)
        torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_later_tasks_change_no_bit_of_the_predictions(name: str) -> None:
    scenario = make_scenario("permuted-digits", tasks=3)
    method = make_small(name, scenario)
    method.learn([scenario[0]], method.recipe(batches=20))
    before = method.logits(scenario[0], scenario[0].test)
    frozen = {key: value.clone() for key, value in model_of(method).named_buffers()}
    for task in scenario[1:]:
        method.learn([task], method.recipe(batches=20))
    assert torch.equal(before, method.logits(scenario[0], scenario[0].test))
    for key, value in model_of(method).named_buffers():
        assert torch.equal(value, frozen[key]), key


def test_stacked_tasks_may_differ_in_rows(rotated_digits: Scenario) -> None:
    short = Task(
        "short", rotated_digits[1].train.select(torch.arange(500)), rotated_digits[1].test, rotated_digits[1].classes
    )
    method = make_small("neuromodnet", rotated_digits)
    method.learn([rotated_digits[0], short, rotated_digits[2]], method.recipe(batches=10))
    alone = make_small("neuromodnet", rotated_digits)
    alone.learn([short], alone.recipe(batches=10))
    torch.testing.assert_close(method.logits(short, short.test), alone.logits(short, short.test), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "size", "stack"),
    [
        ("neuromodnet", "256", 16),
        ("neuromodnet", "4096", 4),
        ("flynet", "10d", 2),
        ("flynet", "40d", 1),
        ("stl", None, 1),
        ("supsup", None, 1),
        ("batche", None, 16),
    ],
)
def test_stack_sizes_depend_on_sizes(name: str, size: str | None, stack: int, mnist_shaped: Scenario) -> None:
    settings = {"weights": "hadamard"} if name == "neuromodnet" else {}
    method, _ = make_method(name, mnist_shaped, size=size, settings=settings)
    assert method.stack_size == stack


def test_a_task_that_is_not_learned_is_an_error(rotated_digits: Scenario) -> None:
    method = make_small("neuromodnet", rotated_digits)
    with pytest.raises(TaskError, match='has not learned task "rotate-000"'):
        method.logits(rotated_digits[0], rotated_digits[0].test)


def test_a_state_without_the_shared_weights_is_an_error(rotated_digits: Scenario) -> None:
    with pytest.raises(ModelError, match="shared weights of batche"):
        make_small("batche", rotated_digits).restore({"rotate-010": {}}, {})
