"""What a module of one's own must be like to learn tasks, with one clear line where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.errors import CRWNError, DataError, ModelError
from crwn.layers import context_names, context_tensors

WRONG_SHAPE = (
    "Given groups",
    "shapes cannot be multiplied",
    "The size of tensor a",
    "normalized_shape",
    "expected input",
)
WRONG_TYPE = ("type", "Half", "Double", "BFloat16")


def converted(model: nn.Module) -> bool:
    """Whether a module is somebody's own, made ready by `neuromodulate`."""
    return hasattr(model, "crwn_description")


@contextmanager
def readable_errors(model: nn.Module, batch: Tensor) -> Iterator[None]:
    """What goes wrong when a batch of rows meets a module that is not made for them, in our words."""
    rows, shape = len(batch), tuple(batch.shape[1:])
    try:
        yield
    except CRWNError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        if "more than 1 value per channel" in said:
            why = f"batch norm needs more than one row in a batch, got {rows}"
            raise DataError(f"{why}: give more rows, or a larger batch_size") from None
        kinds = {value.dtype for value in model.parameters() if value.is_floating_point()} - {torch.float32}
        if kinds and any(sign in said for sign in WRONG_TYPE):
            raise ModelError(_computes_in(kinds.pop())) from None
        if any(sign in said for sign in WRONG_SHAPE):
            raise DataError(f"rows of shape {shape} do not fit the module: {said}") from None
        if not converted(model):
            raise
        raise ModelError(f"the module fails on rows of shape {shape}: {type(error).__name__}: {said}") from error


def check_kind(model: nn.Module) -> None:
    """Contexts are float32: a module whose learned numbers are of another kind cannot take them."""
    for value in context_tensors(model).values():
        if value.dtype != torch.float32:
            raise ModelError(_computes_in(value.dtype))


def _computes_in(kind: torch.dtype) -> str:
    short = str(kind).removeprefix("torch.")
    return f"the module computes in {short}, rows and contexts are float32: call .float() on it first"


def check_logits(logits: object, rows: int, classes: int) -> None:
    """A module answers with `[rows, classes]` numbers, or more than a task has classes."""
    wanted = f"a module must return one tensor [rows, classes], here [{rows}, {classes}] or wider"
    if not isinstance(logits, Tensor):
        raise ModelError(f"{wanted}, this one returns {type(logits).__name__}: wrap it")
    if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < classes:
        raise ModelError(f"{wanted}, this one returns shape {tuple(logits.shape)}")


def check_unchanged(model: nn.Module, work: nn.Module) -> None:
    """Refuse a module that wrote into its own tensors while it learned: such state would be nobody's.

    Args:
        model: the module as it was.
        work: the replica that has learned.
    """
    context = set(context_names(model))
    for kind, before, after in (
        ("parameter", dict(model.named_parameters()), work.named_parameters()),
        ("buffer", dict(model.named_buffers()), work.named_buffers()),
    ):
        for name, value in after:
            if name not in before:
                raise ModelError(f'the module makes its {kind} "{name}" while it computes: make it in __init__')
            counts = not (value.is_floating_point() or value.is_complex())  # counters do not change an answer
            if name in context or counts or _same(value, before[name]):
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
