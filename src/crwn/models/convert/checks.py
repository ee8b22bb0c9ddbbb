"""Checks that a custom module can learn tasks, with errors that name the cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.errors import CRWNError, DataError, ModelError
from crwn.layers import context_names, context_tensors
from crwn.models.convert.conversion import converted

WRONG_SHAPE = (
    "Given groups",
    "shapes cannot be multiplied",
    "The size of tensor a",
    "Expected size for first two dimensions",  # of a stack
    "normalized_shape",
    "expected input",
)
WRONG_TYPE = ("type", "Half", "Double", "BFloat16")


@contextmanager
def readable_errors(model: nn.Module, batch: Tensor) -> Iterator[None]:
    """Turn errors of a forward pass into ones that name the rows, the module and what to do."""
    rows, shape = len(batch), tuple(batch.shape[1:])
    try:
        yield
    except CRWNError:
        raise
    except Exception as error:
        message = (str(error).splitlines() or [""])[0]
        if "more than 1 value per channel" in message:
            why = f"batch norm needs more than one row in a batch, got {rows}"
            raise DataError(f"{why}: give more rows, or a larger batch_size") from None
        kinds = {value.dtype for value in model.parameters() if value.is_floating_point()} - {torch.float32}
        if kinds and any(sign in message for sign in WRONG_TYPE):
            raise ModelError(_computes_in(kinds.pop())) from None
        if any(sign in message for sign in WRONG_SHAPE):
            raise DataError(f"rows of shape {shape} do not fit the module: {message}") from None
        if not converted(model):
            raise
        raise ModelError(f"the module fails on rows of shape {shape}: {type(error).__name__}: {message}") from error


def check_dtype(model: nn.Module) -> None:
    """Raise `ModelError` unless the context of a module is float32, as all stored contexts are."""
    for value in context_tensors(model).values():
        if value.dtype != torch.float32:
            raise ModelError(_computes_in(value.dtype))


def _computes_in(kind: torch.dtype) -> str:
    short = str(kind).removeprefix("torch.")
    return f"the module computes in {short}, rows and contexts are float32: call .float() on it first"


def check_logits(logits: object, rows: int, classes: int) -> None:
    """Raise `ModelError` unless the outputs are one tensor `[rows, classes]`, or wider."""
    wanted = f"a module must return one tensor [rows, classes], here [{rows}, {classes}] or wider"
    if not isinstance(logits, Tensor):
        raise ModelError(f"{wanted}, this one returns {type(logits).__name__}: wrap it")
    if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < classes:
        raise ModelError(f"{wanted}, this one returns shape {tuple(logits.shape)}")


def check_unchanged(model: nn.Module, work: nn.Module) -> None:
    """Raise `ModelError` where a module wrote into its own tensors while it learned: no task would keep that state.

    Args:
        model: the module as it was.
        work: the replica that was trained.
    """
    context = set(context_names(model))
    for kind, before, after in (
        ("parameter", dict(model.named_parameters()), work.named_parameters()),
        ("buffer", dict(model.named_buffers()), work.named_buffers()),
    ):
        for name, value in after:
            if name not in before:
                raise ModelError(f'the module makes its {kind} "{name}" while it computes: make it in __init__')
            # Weights may have been converted to the precision of training.
            counts = not (value.is_floating_point() or value.is_complex())  # counters do not change the outputs
            if name in context or counts or _same(value, before[name].to(value.dtype)):
                continue
            raise ModelError(
                f'the module changes its {kind} "{name}" while it learns: that would be lost, or change earlier tasks; '
                "leave that out (moving averages, spectral norm), or make it a buffer named running_mean or "
                "running_var to have it kept with every task"
            )


def _same(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    one, other = one.detach().cpu(), other.detach().cpu()
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
