"""Every baseline against its formula in plain NumPy: the forward pass, and training steps by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from crwn.methods import EWC, PSP, BatchE, Method, Replay, make_method
from crwn.methods.ewc import diagonal_fisher
from crwn.methods.joined_rows import JoinedRows
from crwn.methods.psp import random_rotation
from crwn.rows import Rows, visiting_order
from crwn.scenarios import Scenario, Task

Array = npt.NDArray[np.float64]
FEATURES, CLASSES, BATCH, SEED = 6, 3, 8, 5


def rows(seed: int, count: int = 40) -> Rows:
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.normal(size=(count, FEATURES)).astype(np.float32))
    return Rows(x, torch.from_numpy(random.integers(0, CLASSES, count)))


@pytest.fixture
def scenario() -> Scenario:
    tasks = [Task(f"t{k}", rows(k), rows(100 + k), tuple(range(CLASSES))) for k in range(3)]
    return Scenario("small", tasks, seed=0, input_shape=(FEATURES,), budget={"batches": 1})


def make(name: str, scenario: Scenario, **settings: str) -> Method:
    return make_method(name, scenario, size="5", seed=SEED, settings=settings)[0]


def learn(method: Method, task: Task, steps: int) -> None:
    method.learn([task], method.recipe(batches=steps, batch_size=BATCH))


def numbers(state: dict[str, torch.Tensor], ending: str) -> list[Array]:
    return [value.double().numpy() for name, value in sorted(state.items()) if name.endswith(ending)]


def batches(task: Task, steps: int) -> list[tuple[Array, npt.NDArray[np.int64]]]:
    order = visiting_order(len(task.train), BATCH, steps, seed=SEED, name=task.name)
    return [(task.train.inputs(at).double().numpy(), task.train.labels(at).numpy()) for at in order]


def network(x: Array, weights: list[Array]) -> list[Array]:
    """Activations of all layers of a bias-free ReLU network, the logits last."""
    out = [x]
    for i, weight in enumerate(weights):
        hidden = out[-1] @ weight.T
        out.append(np.maximum(hidden, 0) if i < len(weights) - 1 else hidden)
    return out


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def gradients(x: Array, y: npt.NDArray[np.int64], weights: list[Array]) -> list[Array]:
    """Gradients of the mean cross-entropy with respect to the weights: back-propagation by hand."""
    outputs = network(x, weights)
    error = softmax(outputs[-1])
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    found = []
    for i in range(len(weights) - 1, -1, -1):
        found.append(error.T @ outputs[i])
        error = (error @ weights[i]) * (outputs[i] > 0)
    return found[::-1]


class RMSprop:
    """`m = 0.99 m + 0.01 g^2`, `w = w - rate * g / (sqrt(m) + 1e-8)`."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.mean: dict[int, Array] = {}

    def __call__(self, at: int, value: Array, gradient: Array) -> Array:
        self.mean[at] = 0.99 * self.mean.get(at, np.zeros_like(gradient)) + 0.01 * gradient**2
        return value - self.rate * gradient / (np.sqrt(self.mean[at]) + 1e-8)


def trained(weights: list[Array], given: list[tuple[Array, npt.NDArray[np.int64]]], rate: float) -> list[Array]:
    step = RMSprop(rate)
    for x, y in given:
        weights = [step(i, w, g) for i, (w, g) in enumerate(zip(weights, gradients(x, y, weights), strict=True))]
    return weights


def same(ours: torch.Tensor, reference: Array) -> None:
    np.testing.assert_allclose(ours.double().numpy(), reference, rtol=2e-4, atol=2e-4)


def parameters(method: Method, ending: str) -> list[Array]:
    named = method.model.named_parameters()  # type: ignore[attr-defined]
    return numbers({name: value.detach() for name, value in named}, ending)


def buffers(method: Method, ending: str) -> list[Array]:
    return numbers(dict(method.model.named_buffers()), ending)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["stl", "finetune"])
def test_dense(name: str, scenario: Scenario) -> None:
    method, task = make(name, scenario), scenario[0]
    weights = trained(parameters(method, "weight"), batches(task, 3), rate=1e-3)
    learn(method, task, 3)
    same(method.logits(task, task.test), network(task.test.x.double().numpy(), weights)[-1])
    if name == "finetune":  # the second task goes on where the first ended
        weights = trained(weights, batches(scenario[1], 2), rate=1e-3)
        learn(method, scenario[1], 2)
        same(method.logits(task, task.test), network(task.test.x.double().numpy(), weights)[-1])


def test_dense_starts_kaiming_and_psp_xavier() -> None:
    wide = Scenario("wide", [Task("t", rows(0), rows(1), (0, 1, 2))], seed=0, input_shape=(600,), budget={})
    for name, variance in (("stl", 2 / 600), ("psp", 2 / 900)):
        method, _ = make_method(name, wide, size="300")
        first = parameters(method, "layers.0.weight")[0]
        assert first.shape == (300, 600)
        assert first.var() == pytest.approx(variance, rel=0.02)


def test_supsup(scenario: Scenario) -> None:
    method, task = make("supsup", scenario), scenario[0]
    frozen, scores = buffers(method, "weight"), parameters(method, "scores")
    for weight, score in zip(frozen, scores, strict=True):
        fan_in = weight.shape[1]
        np.testing.assert_allclose(np.abs(weight), np.sqrt(2 / fan_in), rtol=1e-6)
        assert np.abs(score).max() <= 1 / np.sqrt(fan_in)
    step = RMSprop(0.02)
    for x, y in batches(task, 3):
        effective = [w * (s >= 0) for w, s in zip(frozen, scores, strict=True)]
        # Straight through: the gradient of the effective weight, times the frozen one.
        through = [g * w for g, w in zip(gradients(x, y, effective), frozen, strict=True)]
        scores = [step(i, s, g) for i, (s, g) in enumerate(zip(scores, through, strict=True))]
    method.learn([task], method.recipe(batches=3, batch_size=BATCH, rate=0.02))
    effective = [w * (s >= 0) for w, s in zip(frozen, scores, strict=True)]
    same(method.logits(task, task.test), network(task.test.x.double().numpy(), effective)[-1])


def test_batche(scenario: Scenario) -> None:
    method = make("batche", scenario)
    assert isinstance(method, BatchE)
    weights = buffers(method, "weight")
    for k, rate, steps in ((0, 1e-4, 2), (1, 1e-2, 3)):
        task = scenario[k]
        start = dict(method.start(task))
        s, t = numbers(start, ".s"), numbers(start, ".t")
        assert {abs(v) for values in (*s, *t) for v in values} == {1.0}
        step = RMSprop(rate)
        for x, y in batches(task, steps):
            effective = [a[:, None] * w * b for a, w, b in zip(s, weights, t, strict=True)]
            found = gradients(x, y, effective)  # of s w t, from which the three follow
            for i, g in enumerate(found):
                by_s, by_t = (g * weights[i] * t[i]).sum(1), (g * weights[i] * s[i][:, None]).sum(0)
                if k == 0:
                    weights[i] = step(10 + i, weights[i], g * s[i][:, None] * t[i])
                s[i], t[i] = step(20 + i, s[i], by_s), step(30 + i, t[i], by_t)
        learn(method, task, steps)
        effective = [a[:, None] * w * b for a, w, b in zip(s, weights, t, strict=True)]
        same(method.logits(task, task.test), network(task.test.x.double().numpy(), effective)[-1])
        for ours, reference in zip(buffers(method, "weight"), weights, strict=True):
            np.testing.assert_allclose(ours, reference, atol=1e-5)


def test_psp(scenario: Scenario) -> None:
    method = make("psp", scenario)
    assert isinstance(method, PSP)
    weights = parameters(method, "weight")
    turns = {}
    for k in (0, 1):
        task = scenario[k]
        seed = int(method.task_state(task)["seed"])
        sizes = [w.shape[1] for w in weights]
        turns[k] = [random_rotation(n, seed=seed, name=f"layers.{i}").double().numpy() for i, n in enumerate(sizes)]
        step = RMSprop(1e-4)
        for x, y in batches(task, 2):
            found = gradients(x, y, [w @ c for w, c in zip(weights, turns[k], strict=True)])
            # y = W C x: the gradient of W C, turned back.
            weights = [step(i, w, g @ c.T) for i, (w, g, c) in enumerate(zip(weights, found, turns[k], strict=True))]
        learn(method, task, 2)
    for k in (0, 1):
        effective = [w @ c for w, c in zip(weights, turns[k], strict=True)]
        test = scenario[k].test
        same(method.logits(scenario[k], test), network(test.x.double().numpy(), effective)[-1])
    assert np.abs(turns[0][0] - turns[1][0]).max() > 0.1


def test_random_rotations_are_orthogonal_and_uniform() -> None:
    turn = random_rotation(64, seed=1, name="x").double()
    np.testing.assert_allclose((turn @ turn.T).numpy(), np.eye(64), atol=1e-6)
    # Haar: the trace has mean 0 and variance 1; QR without the sign fix has a clearly negative mean.
    traces = np.array([float(random_rotation(6, seed=seed, name="x").trace()) for seed in range(400)])
    assert abs(traces.mean()) < 0.2
    assert 0.8 < traces.var() < 1.25


def test_mtl_mixes_all_tasks(scenario: Scenario) -> None:
    method = make("mtl", scenario)
    joined = Task(
        "all tasks",
        Rows(
            torch.cat([task.train.x for task in scenario]),
            torch.cat([task.train.labels(slice(None)) for task in scenario]),
        ),
        scenario[0].test,
        scenario[0].classes,
    )
    # Two batches a task and three tasks: six batches of rows of all of them.
    weights = trained(parameters(method, "weight"), batches(joined, 6), rate=1e-3)
    method.learn(list(scenario), method.recipe(batches=2, batch_size=BATCH))
    for task in scenario:
        same(method.logits(task, task.test), network(task.test.x.double().numpy(), weights)[-1])


def test_ewc(scenario: Scenario) -> None:
    method = make("ewc", scenario, strength="50", fisher_rows="40")
    assert isinstance(method, EWC)
    first, second, third = scenario
    learn(method, first, 20)
    old = [numbers(method.weights, "weight")]
    fishers = [numbers(method.fisher, "weight")]
    learn(method, second, 20)
    old.append(numbers(method.weights, "weight"))
    fishers.append([both - one for both, one in zip(numbers(method.fisher, "weight"), fishers[0], strict=True)])

    # The third task by hand, with one penalty for each earlier task as EWC is written.
    weights, step = old[1], RMSprop(1e-3)
    for x, y in batches(third, 3):
        found = gradients(x, y, weights)
        for star, fisher in zip(old, fishers, strict=True):
            found = [g + 50 * f * (w - o) for g, f, w, o in zip(found, fisher, weights, star, strict=True)]
        weights = [step(i, w, g) for i, (w, g) in enumerate(zip(weights, found, strict=True))]
    learn(method, third, 3)
    for ours, reference in zip(numbers(method.weights, "weight"), weights, strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-4)


def test_the_fisher_is_the_mean_of_squared_gradients(scenario: Scenario) -> None:
    method, task = make("finetune", scenario), scenario[0]
    weights = parameters(method, "weight")
    names = [name for name, _ in sorted(method.model.named_parameters())]  # type: ignore[attr-defined]
    repeated = Rows(task.train.x[:5].repeat(4000, 1), task.train.labels(slice(0, 5)).repeat(4000))
    found = diagonal_fisher(
        method.model,  # type: ignore[attr-defined]
        {name: torch.from_numpy(w).float() for name, w in zip(names, weights, strict=True)},
        repeated,
        classes=CLASSES,
        names=names,
        generator=np.random.default_rng(0),
    )
    # With labels drawn many times, the mean is the expectation over the model's own prediction.
    expected = [np.zeros_like(w) for w in weights]
    for x in task.train.x[:5].double().numpy():
        chance = softmax(network(x[None], weights)[-1])[0]
        for label in range(CLASSES):
            for e, g in zip(expected, gradients(x[None], np.array([label]), weights), strict=True):
                e += chance[label] * g**2 / 5
    for name, e in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name].numpy(), e, rtol=0.1, atol=0.02 * e.max())


def test_outputs_that_a_task_has_no_class_for_are_not_held(scenario: Scenario) -> None:
    method, task = make("finetune", scenario), scenario[0]
    names = [name for name, _ in method.model.named_parameters()]  # type: ignore[attr-defined]
    found = diagonal_fisher(
        method.model,  # type: ignore[attr-defined]
        method.weights,  # type: ignore[attr-defined]
        Rows(task.train.x[:40]),
        classes=2,
        names=names,
        generator=np.random.default_rng(0),
    )
    last = found[names[-1]]
    assert bool((last[:2] > 0).any())
    assert not bool(last[2:].any())


def test_replay(scenario: Scenario) -> None:
    row_bytes = 4 * FEATURES + 2
    method = make("replay", scenario, buffer_bytes=str(6 * row_bytes))
    assert isinstance(method, Replay)
    first, second, third = scenario
    weights = trained(parameters(method, "weight"), batches(first, 2), rate=1e-3)
    learn(method, first, 2)
    x, y = (part.double().numpy() for part in method.kept["t0"])
    assert len(x) == 6

    mixed = method._mixed(second)
    given = []
    for at in visiting_order(len(second.train), BATCH, 2, seed=SEED, name="t1"):
        batch, labels = mixed.inputs(at).double().numpy(), mixed.labels(at).numpy()
        np.testing.assert_array_equal(batch[:BATCH], second.train.inputs(at).numpy())
        for row, label in zip(batch[BATCH:], labels[BATCH:], strict=True):
            position = np.flatnonzero((x == row).all(axis=1))
            assert y[position[0]] == label
        given.append((batch, labels))
    weights = trained(weights, given, rate=1e-3)
    learn(method, second, 2)
    same(method.logits(first, first.test), network(first.test.x.double().numpy(), weights)[-1])
    assert [len(kept) for kept, _ in method.kept.values()] == [3, 3]
    learn(method, third, 1)
    assert [len(kept) for kept, _ in method.kept.values()] == [2, 2, 2]


def test_joined_rows_keep_the_order_of_positions() -> None:
    parts = [rows(1, 5), rows(2, 7), rows(3, 4)]
    joined = JoinedRows.of(parts)
    x = torch.cat([part.x for part in parts])
    y = torch.cat([part.labels(slice(None)) for part in parts])
    at = torch.tensor([15, 0, 6, 6, 4, 5, 11, 12])
    assert len(joined) == 16
    assert torch.equal(joined.inputs(at), x[at])
    assert torch.equal(joined.labels(at), y[at])
    assert torch.equal(joined.inputs(slice(3, 9)), x[3:9])


def test_neuromodnet_pretrained(scenario: Scenario) -> None:
    method, task = make("neuromodnet", scenario, pretrained="true", start="ones"), scenario[0]
    weights = buffers(method, "frozen.weight")
    v = [np.ones(w.shape[1]) for w in weights]
    alpha = [np.ones(()) for _ in weights]
    step = RMSprop(1e-3)
    for x, y in batches(task, 2):
        found = gradients(x, y, [a * w * b for a, w, b in zip(alpha, weights, v, strict=True)])
        for i, g in enumerate(found):
            by_v, by_alpha = (g * alpha[i] * weights[i]).sum(0), np.asarray((g * weights[i] * v[i]).sum())
            weights[i] = step(10 + i, weights[i], g * alpha[i] * v[i])
            v[i], alpha[i] = step(20 + i, v[i], by_v), step(30 + i, alpha[i], by_alpha)
    learn(method, task, 2)
    effective = [a * w * b for a, w, b in zip(alpha, weights, v, strict=True)]
    same(method.logits(task, task.test), network(task.test.x.double().numpy(), effective)[-1])
    frozen = buffers(method, "frozen.weight")
    learn(method, scenario[1], 2)
    for before, after in zip(frozen, buffers(method, "frozen.weight"), strict=True):
        np.testing.assert_array_equal(before, after)
