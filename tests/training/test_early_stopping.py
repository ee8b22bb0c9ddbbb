"""Early stopping: the best context is kept, and a stack stops each task as it would stop alone."""

from __future__ import annotations

import torch
from torch import nn

from crwn import NeuroModNet, Recipe
from crwn.data.dataset import Rows
from crwn.layers.weights import named_generator
from crwn.training import Step, train
from crwn.training.evaluation import predict_logits
from crwn.training.task import PreparedTask
from digit_rows import Tensors, same_tensors


def noisy(digit_tensors: Tensors, name: str, rows: int = 64, *, seed: int = 0) -> PreparedTask:
    """A task that can only be learned by heart: its validation labels are random."""
    x, y = digit_tensors
    wrong = torch.from_numpy(named_generator("noise", seed).integers(0, 10, 200))
    return PreparedTask(name, Rows(x[:rows], y[:rows]), range(10), Rows(x[200:400], wrong))


def test_keeps_the_best_context_and_stops(digit_tensors: Tensors, model: NeuroModNet) -> None:
    task = noisy(digit_tensors, "a")
    validation = task.validation
    assert validation is not None
    recipe = Recipe(batches=200, patience=2, check_every=5)
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []

    def watch(step: Step) -> None:
        if step.step % 5 == 0:
            tensors = {name: value[0].detach().clone() for name, value in step.tensors.items()}
            logits = predict_logits(model, tensors, validation)
            seen.append((float(nn.functional.cross_entropy(logits, validation.labels(slice(None)))), tensors))

    (found,) = train(model, [task], recipe, seed=0, callbacks=[watch])
    best, tensors = min(seen, key=lambda pair: pair[0])
    assert found.steps < 200
    assert same_tensors(found.tensors, tensors)
    assert [loss for loss, _ in seen].index(best) == len(seen) - 3


def test_a_task_in_a_stack_stops_as_it_would_alone(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors
    good = PreparedTask("good", Rows(x[:64], y[:64]), range(10), Rows(x[64:264], y[64:264]))
    bad = noisy(digit_tensors, "bad")
    recipe = Recipe(batches=60, patience=1, check_every=4, rate=0.02)
    alone = [train(model, [task], recipe, seed=0)[0] for task in (good, bad)]
    together = train(model, [good, bad], recipe, seed=0)
    assert alone[1].steps < alone[0].steps
    for one, two in zip(together, alone, strict=True):
        assert torch.allclose(one.tensors["layers.0.v"], two.tensors["layers.0.v"], atol=1e-3)


def test_the_last_state_is_checked_too(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors
    task = PreparedTask("a", Rows(x[:256], y[:256]), range(10), Rows(x[256:400], y[256:400]))
    recipe = Recipe(batches=25, check_every=20, optimizer="sgd", rate=0.05)
    watched = train(model, [task], recipe, seed=0)[0]
    plain = train(model, [PreparedTask("a", task.rows, range(10))], recipe, seed=0)[0]
    assert same_tensors(watched.tensors, plain.tensors)


def test_few_rows_are_not_stopped_after_a_handful_of_batches(digit_tensors: Tensors, model: NeuroModNet) -> None:
    x, y = digit_tensors
    task = PreparedTask("a", Rows(x[:50], y[:50]), range(10), Rows(x[50:62], y[50:62]))
    assert train(model, [task], Recipe(batches=200), seed=0)[0].steps >= 60
