"""All methods alike: they learn, keep their state, count honestly, and independent ones never forget."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load, save

from crwn.errors import ConfigError, ModelError, TaskError
from crwn.methods import METHODS, Method, make_method
from crwn.prediction import accuracy
from crwn.scenarios import Scenario, make_scenario

CHANCE = 0.1
INDEPENDENT = ["neuromodnet", "flynet", "supsup", "batche", "stl"]
VARIANTS = [(name, {}) for name in METHODS] + [
    ("neuromodnet", {"pretrained": "true"}),
    ("neuromodnet", {"weights": "hadamard", "modulation": "local", "depth": "1"}),
    ("flynet", {"modulation": "global"}),
]


@pytest.fixture(scope="module")
def digits() -> Scenario:
    return make_scenario("rotated-digits", tasks=3)


def make(name: str, scenario: Scenario, **settings: str) -> Method:
    size = {"neuromodnet": "64", "flynet": "10d", "supsup": "128"}.get(name, "32")
    method, _ = make_method(name, scenario, size=size, seed=3, settings=settings)
    return method


def learn(method: Method, scenario: Scenario, *, batches: int = 40) -> None:
    recipe = method.recipe(batches=batches)
    if method.joint:
        method.learn(list(scenario), recipe)
        return
    for task in scenario:
        method.learn([task], recipe)


def logits(method: Method, scenario: Scenario) -> list[torch.Tensor]:
    return [method.logits(task, task.test) for task in scenario]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_every_method_learns_and_its_state_is_all_it_needs(
    name: str, settings: dict[str, str], digits: Scenario
) -> None:
    method = make(name, digits[:2], **settings)
    learn(method, digits[:2], batches=100)
    before = logits(method, digits[:2])
    for task, found in zip(digits[:2], before, strict=True):
        assert found.shape == (len(task.test), len(task.classes))
        if settings.get("modulation") != "global":  # one learned number does not teach much
            assert accuracy(found, task.test.labels(slice(None))) > 3 * CHANCE

    # Through the bytes of a file, into a method made anew.
    states = {task.name: load(save(method.task_state(task))) for task in digits[:2]}
    shared = load(save(method.shared_state()))
    again = make(name, digits[:2], **settings)
    again.restore(states, shared)
    for old, new in zip(before, logits(again, digits[:2]), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize(("name", "settings"), [variant for variant in VARIANTS if not METHODS[variant[0]].joint])
def test_a_restored_method_goes_on_as_if_never_stopped(name: str, settings: dict[str, str], digits: Scenario) -> None:
    whole = make(name, digits, **settings)
    learn(whole, digits, batches=15)

    stopped = make(name, digits, **settings)
    learn(stopped, digits[:2], batches=15)
    again = make(name, digits, **settings)
    again.restore({task.name: stopped.task_state(task) for task in digits[:2]}, stopped.shared_state())
    again.learn([digits[2]], again.recipe(batches=15))
    for old, new in zip(logits(whole, digits), logits(again, digits), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_decides_everything(name: str, digits: Scenario) -> None:
    found = []
    for seed in (1, 1, 2):
        method, _ = make_method(name, digits[:1], size="10d" if name == "flynet" else "32", seed=seed)
        learn(method, digits[:1], batches=5)
        found.append(logits(method, digits[:1])[0])
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


@pytest.mark.parametrize(
    ("name", "settings"), [(name, {}) for name in INDEPENDENT] + [("neuromodnet", {"pretrained": "true"})]
)
def test_a_stack_learns_what_its_tasks_learn_alone(name: str, settings: dict[str, str], digits: Scenario) -> None:
    assert METHODS[name].independent
    alone, stacked = make(name, digits, **settings), make(name, digits, **settings)
    learn(alone, digits, batches=12)
    stacked.learn(list(digits), stacked.recipe(batches=12))
    for old, new in zip(logits(alone, digits), logits(stacked, digits), strict=True):
        torch.testing.assert_close(old, new, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_tasks_are_exactly_what_they_were_after_later_tasks(name: str) -> None:
    scenario = make_scenario("permuted-digits", tasks=3)
    method = make(name, scenario)
    method.learn([scenario[0]], method.recipe(batches=20))
    before = method.logits(scenario[0], scenario[0].test)
    frozen = {key: value.clone() for key, value in method.model.named_buffers()}  # type: ignore[attr-defined]
    for task in scenario[1:]:
        method.learn([task], method.recipe(batches=20))
    assert torch.equal(before, method.logits(scenario[0], scenario[0].test))
    for key, value in method.model.named_buffers():  # type: ignore[attr-defined]
        assert torch.equal(value, frozen[key]), key


@pytest.mark.slow
def test_finetune_forgets_and_replay_and_ewc_forget_less() -> None:
    scenario = make_scenario("permuted-digits", tasks=3)
    lost = {}
    for name in ("finetune", "ewc", "replay"):
        method, _ = make_method(name, scenario, size="64")
        accuracies = []
        for task in scenario:
            method.learn([task], method.recipe(batches=200))
            first = scenario[0]
            accuracies.append(accuracy(method.logits(first, first.test), first.test.labels(slice(None))))
        lost[name] = accuracies[0] - accuracies[-1]
    assert lost["finetune"] > 0.2
    assert lost["ewc"] < 0.8 * lost["finetune"]
    assert lost["replay"] < 0.3 * lost["finetune"]


def test_stacked_tasks_may_differ_in_rows(digits: Scenario) -> None:
    short = digits[1].__class__("short", digits[1].train.select(torch.arange(500)), digits[1].test, digits[1].classes)
    method = make("neuromodnet", digits)
    method.learn([digits[0], short, digits[2]], method.recipe(batches=10))
    alone = make("neuromodnet", digits)
    alone.learn([short], alone.recipe(batches=10))
    torch.testing.assert_close(method.logits(short, short.test), alone.logits(short, short.test), rtol=1e-3, atol=1e-3)


def test_asking_too_early_or_restoring_too_little_says_so(digits: Scenario) -> None:
    method = make("neuromodnet", digits)
    with pytest.raises(TaskError, match='has not learned task "rotate-000"'):
        method.logits(digits[0], digits[0].test)
    batche = make("batche", digits)
    with pytest.raises(ModelError, match="shared weights of batche"):
        batche.restore({"rotate-010": {}}, {})
    with pytest.raises(ConfigError, match="one task after another, got 2"):
        make("finetune", digits).learn(list(digits[:2]), method.recipe())


@pytest.mark.parametrize("name", METHODS)
def test_only_first_tasks_that_train_shared_weights_are_alone(name: str, digits: Scenario) -> None:
    method = make(name, digits)
    assert method.first_alone == (name == "batche")
    assert method.stack_size >= 1
    if not method.independent:
        assert method.stack_size == 1
