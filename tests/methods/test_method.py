"""All methods alike: they learn, their state restores them, and the seed determines them."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load, save

from crwn.data import ImageSet
from crwn.methods import METHODS, Method, make_method
from crwn.scenarios import Scenario, make_scenario, rotated
from crwn.training.evaluation import accuracy
from small_methods import make_small

CHANCE = 0.1
FLAT = [name for name in METHODS if name != "backbone"]  # which takes images alone
VARIANTS: list[tuple[str, dict[str, str]]] = [
    *((name, {}) for name in FLAT),
    ("neuromodnet", {"pretrained": "true"}),
    ("neuromodnet", {"weights": "hadamard", "modulation": "local", "depth": "1"}),
    ("flynet", {"modulation": "global"}),
]


def learn(method: Method, scenario: Scenario, **length: int) -> None:
    recipe = method.recipe(**length)
    for tasks in [list(scenario)] if method.joint else [[task] for task in scenario]:
        method.learn(tasks, recipe)


def logits(method: Method, scenario: Scenario) -> list[torch.Tensor]:
    return [method.logits(task, task.test) for task in scenario]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_every_method_learns_and_is_restored_from_its_state(
    name: str, settings: dict[str, str], rotated_digits: Scenario
) -> None:
    method = make_small(name, rotated_digits[:2], settings)
    learn(method, rotated_digits[:2], batches=100)
    before = logits(method, rotated_digits[:2])
    for task, found in zip(rotated_digits[:2], before, strict=True):
        assert found.shape == (len(task.test), len(task.classes))
        if settings.get("modulation") != "global":  # one learned parameter is not enough
            assert accuracy(found, task.test.labels(slice(None))) > 3 * CHANCE

    # Through the bytes of a file, into a new object.
    states = {task.name: load(save(method.task_state(task))) for task in rotated_digits[:2]}
    again = make_small(name, rotated_digits[:2], settings)
    again.restore(states, load(save(method.shared_state())))
    for old, new in zip(before, logits(again, rotated_digits[:2]), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_for_images_learns_and_is_restored_from_its_state(name: str, stripes: Scenario) -> None:
    if name == "backbone":
        pytest.importorskip("efficientnet_lite_pytorch", reason="crwn[vision] is not installed")
    method, _ = make_method(name, stripes)
    learn(method, stripes, epochs=2, batch_size=16)
    before = logits(method, stripes)
    assert all(bool(found.isfinite().all()) and found.shape == (48, 2) for found in before)
    again, _ = make_method(name, stripes)
    again.restore({task.name: method.task_state(task) for task in stripes}, method.shared_state())
    for old, new in zip(before, logits(again, stripes), strict=True):
        assert torch.equal(old, new)
    if method.independent and name not in ("flynet", "backbone"):  # which learn no batch norm
        assert any("running_mean" in key for key in method.task_state(stripes[0]))


@pytest.mark.parametrize(("name", "settings"), [variant for variant in VARIANTS if not METHODS[variant[0]].joint])
def test_a_restored_method_continues_as_if_never_stopped(
    name: str, settings: dict[str, str], rotated_digits: Scenario
) -> None:
    whole = make_small(name, rotated_digits, settings)
    learn(whole, rotated_digits, batches=15)

    stopped = make_small(name, rotated_digits, settings)
    learn(stopped, rotated_digits[:2], batches=15)
    again = make_small(name, rotated_digits, settings)
    again.restore({task.name: stopped.task_state(task) for task in rotated_digits[:2]}, stopped.shared_state())
    learn(again, rotated_digits[2:], batches=15)
    for old, new in zip(logits(whole, rotated_digits), logits(again, rotated_digits), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("name", FLAT)
def test_the_seed_determines_everything(name: str, rotated_digits: Scenario) -> None:
    found = []
    for seed in (1, 1, 2):
        method = make_small(name, rotated_digits[:1], seed=seed)
        learn(method, rotated_digits[:1], batches=5)
        found.append(logits(method, rotated_digits[:1])[0])
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


@pytest.mark.parametrize("name", FLAT)
def test_only_a_first_task_that_trains_shared_weights_is_learned_alone(name: str, rotated_digits: Scenario) -> None:
    method = make_small(name, rotated_digits)
    assert method.first_alone == (name == "batche")
    assert method.stack_size >= 1
    if not method.independent:
        assert method.stack_size == 1


def test_bytes_counted_are_bytes_written() -> None:
    scenario = make_scenario("rotated-digits", tasks=2)
    for name in ("neuromodnet", "flynet", "supsup", "batche", "stl"):
        method = make_small(name, scenario)
        learn(method, scenario, batches=1)
        own = sum(tensor.nbytes for tensor in method.task_state(scenario[1]).values())
        spread = sum(v.nbytes for k, v in method.task_state(scenario[0]).items() if k.startswith("shared/"))
        assert method.counts(2).bytes_per_task == own + spread // 2
    replay = make_small("replay", scenario, {"buffer_bytes": "5000"})
    for task in scenario:
        replay.learn([task], replay.recipe(batches=1))
        kept = sum(v.nbytes for k, v in replay.shared_state().items() if k.startswith("buffer/"))
        assert 4000 < kept <= 5000
    psp = make_small("psp", scenario)
    assert sum(tensor.nbytes for tensor in psp.task_state(scenario[0]).values()) == 8


@pytest.mark.slow
def test_finetune_forgets_and_replay_and_ewc_forget_less() -> None:
    scenario = make_scenario("permuted-digits", tasks=3)
    first = scenario[0]
    lost = {}
    for name in ("finetune", "ewc", "replay"):
        method, _ = make_method(name, scenario, size="64")
        accuracies = []
        for task in scenario:
            method.learn([task], method.recipe(batches=200))
            accuracies.append(accuracy(method.logits(first, first.test), first.test.labels(slice(None))))
        lost[name] = accuracies[0] - accuracies[-1]
    assert lost["finetune"] > 0.2
    assert lost["ewc"] < 0.8 * lost["finetune"]
    assert lost["replay"] < 0.3 * lost["finetune"]


@pytest.mark.mnist
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "at_least"), [("neuromodnet", "256", 80.0), ("flynet", "10d", 85.0), ("stl", None, 88.0)]
)
def test_rows_of_table_1_with_a_tenth_of_the_batches(
    name: str, size: str | None, at_least: float, mnist: ImageSet
) -> None:
    scenario = rotated(mnist, tasks=2)
    method, _ = make_method(name, scenario, size=size)
    task = scenario[1]
    method.learn([task], method.recipe(batches=100))
    assert 100 * accuracy(method.logits(task, task.test), task.test.labels(slice(None))) > at_least
