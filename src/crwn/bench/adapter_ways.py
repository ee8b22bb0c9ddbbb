"""Ways to learn a task on a backbone's features: contexts in closed form, a ridge head, a linear probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.layers import learned_parameters
from crwn.models import BackboneNet, DeepBackboneNet, ImageBackbone
from crwn.training.evaluation import predict_logits
from crwn.training.exact import ExactSettings, learn_exact
from crwn.training.task import PreparedTask

RIDGES = (1e-2, 1e-1, 1.0)
EPOCHS, BATCH, RATE = 10, 64, 3e-3


@dataclass(frozen=True)
class Features:
    """A task as features of the backbone, or as its last feature maps: training and test rows with class indices."""

    name: str
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int


@dataclass(frozen=True)
class Outcome:
    """What one way reached: accuracy in percent and seconds of every task, and the parameters a task learns."""

    accuracies: list[float]
    seconds: list[float]
    params: int


def on_every_task(tasks: Sequence[Features], learn: Callable[[Features], tuple[Tensor, int]]) -> Outcome:
    """Learn every task by a function that returns the logits of its test rows and the number of learned parameters."""
    accuracies, seconds, params = [], [], 0
    for task in tasks:
        began = time.perf_counter()
        logits, params = learn(task)
        seconds.append(time.perf_counter() - began)
        accuracies.append(100 * float((logits.argmax(dim=1) == task.y_test).double().mean()))
    return Outcome(accuracies, seconds, params)


def context_way(backbone: ImageBackbone, gains: int, *, seed: int) -> Callable[[Features], tuple[Tensor, int]]:
    """A context with so many gains per feature, in closed form."""

    def learn(task: Features) -> tuple[Tensor, int]:
        head = BackboneNet(backbone, task.classes, seed=seed, gains=gains, mirror=False).head
        prepared = PreparedTask(task.name, Rows(task.x, task.y), range(task.classes))
        found = learn_exact(head, prepared, ExactSettings(ridge=None, newton=0)).learned
        return predict_logits(head, found.tensors, Rows(task.x_test)), learned_parameters(head)

    return learn


def last_layer_net(backbone: ImageBackbone, classes: int, **settings: Any) -> DeepBackboneNet:
    """A network whose contexts modulate the last layer of the backbone, and a head."""
    return DeepBackboneNet(backbone, classes, depth="last", blocks=1, mirror=False, **settings)


def deep_way(
    backbone: ImageBackbone, gains: int, *, seed: int, epochs: int
) -> Callable[[Features], tuple[Tensor, int]]:
    """A context in the last layer of the backbone and in the head, from the closed form for the head, by gradient."""

    def flat(maps: Tensor) -> Tensor:
        return maps.mT.flatten(1)

    def learn(task: Features) -> tuple[Tensor, int]:
        head = last_layer_net(backbone, task.classes, seed=seed, gains=gains).head
        rows = replace(task, x=flat(task.x), x_test=flat(task.x_test))
        prepared = PreparedTask(task.name, Rows(rows.x, rows.y), range(task.classes))
        found = learn_exact(head, prepared, ExactSettings(ridge=None, newton=0)).learned
        head.load_state_dict(found.tensors, strict=False)
        return trained(head, rows, seed=seed, epochs=epochs), learned_parameters(head)

    return learn


def ridge_way(task: Features) -> tuple[Tensor, int]:
    """A linear head by least squares on one-hot labels; the ridge is chosen on a fifth of the rows that is held out."""
    x, x_test = _with_constant(task.x), _with_constant(task.x_test)
    targets = F.one_hot(task.y, task.classes).double() - 1 / task.classes
    held = torch.arange(len(x)) % 5 == 0

    def fitted(rows: Tensor, wanted: Tensor, ridge: float) -> Tensor:
        gram = rows.T @ rows
        gram.diagonal().add_(ridge * float(gram.diagonal().mean()))
        found: Tensor = torch.linalg.solve(gram, rows.T @ wanted)
        return found

    def held_out(ridge: float) -> float:
        logits = x[held] @ fitted(x[~held], targets[~held], ridge)
        return float((logits.argmax(dim=1) == task.y[held]).double().mean())

    weight = fitted(x, targets, max(RIDGES, key=held_out))
    return x_test @ weight, weight.numel()


def _with_constant(features: Tensor) -> Tensor:
    """Features divided by their root mean square, as the contexts take them, and a 1."""
    x = features.double()
    x = x / (x.square().mean(dim=1, keepdim=True) + 1e-6).sqrt()
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


def probe_way(*, seed: int) -> Callable[[Features], tuple[Tensor, int]]:
    """A linear head trained by gradient."""

    def learn(task: Features) -> tuple[Tensor, int]:
        torch.manual_seed(seed)
        head = nn.Linear(task.x.shape[1], task.classes)
        return trained(head, task, seed=seed), learned_parameters(head)

    return learn


def trained(model: nn.Module, task: Features, *, seed: int, epochs: int = EPOCHS) -> Tensor:
    """Train what is trainable with AdamW and a cosine schedule; return the logits of the test rows."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=1e-2)
    steps = epochs * -(-len(task.x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    dice = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(task.x), generator=dice)
        for at in torch.split(order, BATCH):
            loss = F.cross_entropy(model(task.x[at]), task.y[at])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        return torch.cat([model(some) for some in torch.split(task.x_test, 256)])
