"""A bias-free ReLU network, its gradients and RMSprop in plain NumPy: the reference for the formulas of the methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from crwn.data.dataset import Rows, visiting_order
from crwn.methods import Counts, Method, make_method
from crwn.scenarios import Scenario, Task

Array = npt.NDArray[np.float64]
CountsOf = Callable[..., Counts]  # (name of a method, its size, its options) -> counts
Batch = tuple[Array, npt.NDArray[np.int64]]
FEATURES, CLASSES, BATCH, SEED = 6, 3, 8, 5


def random_rows(seed: int, count: int = 40) -> Rows:
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.normal(size=(count, FEATURES)).astype(np.float32))
    return Rows(x, torch.from_numpy(random.integers(0, CLASSES, count)))


def make(name: str, scenario: Scenario, **settings: str) -> Method:
    return make_method(name, scenario, size="5", seed=SEED, settings=settings)[0]


def learn(method: Method, task: Task, steps: int, **overrides: Any) -> None:
    method.learn([task], method.recipe(batches=steps, batch_size=BATCH, **overrides))


def model_of(method: Method) -> nn.Module:
    return cast(nn.Module, cast(Any, method).model)


def arrays(tensors: dict[str, torch.Tensor], ending: str) -> list[Array]:
    """The tensors whose names end like this, ordered by name."""
    return [value.detach().double().numpy() for name, value in sorted(tensors.items()) if name.endswith(ending)]


def parameters(method: Method, ending: str) -> list[Array]:
    return arrays(dict(model_of(method).named_parameters()), ending)


def buffers(method: Method, ending: str) -> list[Array]:
    return arrays(dict(model_of(method).named_buffers()), ending)


def batches(task: Task, steps: int) -> list[Batch]:
    """The batches that a method trains on."""
    order = visiting_order(len(task.train), BATCH, steps, seed=SEED, name=task.name)
    return [(task.train.inputs(at).double().numpy(), task.train.labels(at).numpy()) for at in order]


def activations(x: Array, weights: list[Array]) -> list[Array]:
    """The input and the outputs of all layers, the logits last."""
    out = [x]
    for i, weight in enumerate(weights):
        hidden = out[-1] @ weight.T
        out.append(np.maximum(hidden, 0) if i < len(weights) - 1 else hidden)
    return out


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return cast(Array, powers / powers.sum(axis=1, keepdims=True))


def gradients(x: Array, y: npt.NDArray[np.int64], weights: list[Array]) -> list[Array]:
    """Gradients of the mean cross-entropy with respect to the weights, by backpropagation."""
    outputs = activations(x, weights)
    error = softmax(outputs[-1])
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    found = []
    for i in range(len(weights) - 1, -1, -1):
        found.append(error.T @ outputs[i])
        error = (error @ weights[i]) * (outputs[i] > 0)
    return found[::-1]


class RMSprop:
    """`m = 0.99 m + 0.01 g^2`, `w = w - rate * g / (sqrt(m) + 1e-8)`, with one m for every key."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.mean: dict[int, Array] = {}

    def __call__(self, key: int, value: Array, gradient: Array) -> Array:
        self.mean[key] = 0.99 * self.mean.get(key, np.zeros_like(gradient)) + 0.01 * gradient**2
        return value - self.rate * gradient / (np.sqrt(self.mean[key]) + 1e-8)


def trained(weights: list[Array], given: list[Batch], rate: float) -> list[Array]:
    """The weights after RMSprop on these batches."""
    step = RMSprop(rate)
    for x, y in given:
        weights = [step(i, w, g) for i, (w, g) in enumerate(zip(weights, gradients(x, y, weights), strict=True))]
    return weights


def assert_predicts(method: Method, task: Task, weights: list[Array]) -> None:
    """The method's logits on the test rows are those of the network with these weights."""
    expected = activations(task.test.x.double().numpy(), weights)[-1]
    found = method.logits(task, task.test).double().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
