"""What a module of one's own must be like to learn tasks, with one clear line where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.errors import DataError, ModelError
from crwn.layers import context_names

WRONG_SHAPE = ("Given groups", "shapes cannot be multiplied", "The size of tensor a")


@contextmanager
def readable_errors(model: nn.Module, batch: Tensor) -> Iterator[None]:
    """What torch says when a batch of rows meets a module that is not made for them, in our words."""
    rows, shape = len(batch), tuple(batch.shape[1:])
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        why = f"batch norm needs more than one row in a batch, got {rows}"
        raise DataError(f"{why}: give more rows, or a larger batch_size") from None
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        kinds = {value.dtype for value in model.parameters() if value.is_floating_point()} - {torch.float32}
        if kinds and "type" in said:
            kind = str(kinds.pop()).removeprefix("torch.")
            raise ModelError(f"the module computes in {kind}, rows are float32: call .float() on it first") from None
        if any(sign in said for sign in WRONG_SHAPE):
            raise DataError(f"rows of shape {shape} do not fit the module: {said}") from None
        raise


def check_logits(logits: object, rows: int, classes: int) -> None:
    """A module answers with `[rows, classes]` numbers, or more than a task has classes."""
    wanted = f"a module must return one tensor [rows, classes], here [{rows}, {classes}] or wider"
    if not isinstance(logits, Tensor):
        raise ModelError(f"{wanted}, this one returns {type(logits).__name__}: wrap it")
    if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < classes:
        raise ModelError(f"{wanted}, this one returns shape {tuple(logits.shape)}")


def check_buffers(model: nn.Module, work: nn.Module) -> None:
    """Refuse a module that wrote into a buffer while it learned: such state would be nobody's.

    Args:
        model: the module as it was.
        work: the replica that has learned a batch.
    """
    before, context = dict(model.named_buffers()), set(context_names(model))
    for name, value in work.named_buffers():
        if name in context or not value.is_floating_point():  # counters do not change an answer
            continue
        if not torch.equal(value.cpu(), before[name].cpu()):
            raise ModelError(
                f'the module changes its buffer "{name}" while it learns, which would be lost: name it running_mean or '
                "running_var to have it kept with every task, or let it be"
            )


def draws(replica: nn.Module, x: Tensor) -> bool:
    """Whether a module draws random numbers while it learns (dropout): told by trying, on a few rows."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        replica.train()(x)
        return not torch.equal(before, torch.get_rng_state())
