"""Operations on contexts of one model: check one learned elsewhere, merge one into the model, find similar ones."""

from __future__ import annotations

from torch import nn

from crwn.contexts import Context, check_model
from crwn.contexts.bank import Bank, get_readable
from crwn.contexts.similarity import flatten, nearest
from crwn.data.standardize import NO_SCALING, InputScaling, OutputScaling, check_scaling
from crwn.errors import ContextError
from crwn.layers import context_tensors
from crwn.models import network_of
from crwn.models.merge import merge_context


def check_context(context: Context, model: nn.Module, fingerprint: str, *, outputs: int) -> None:
    """Raise ContextError if a context was learned by another model, or its classes or scaling do not fit this one."""
    check_model(context, fingerprint, {name: tuple(tensor.shape) for name, tensor in context_tensors(model).items()})
    if not 1 <= len(context.classes) <= outputs:
        raise ContextError(
            f'context for task "{context.name}" has {len(context.classes)} classes, '
            f"this model has {outputs} outputs: it cannot be used"
        )
    shape = network_of(model).input_shape
    columns = None if shape is None else shape[0] if len(shape) in (1, 3) else 0
    check_scaling(context.info.scaling, context.name, columns)


def merge_task(model: nn.Module, context: Context, *, outputs: int) -> nn.Module:
    """A plain `nn.Module` with this context: raw rows in; logits, or the numbers of a regression, out."""
    scaling, classes = context.info.scaling, len(context.classes)
    before = None if scaling == NO_SCALING else InputScaling(scaling)
    merged = merge_context(model, context.tensors, before=before, classes=classes if classes < outputs else None)
    return nn.Sequential(merged, OutputScaling(context.info.target_scaling)) if is_scaled(context) else merged


def is_scaled(context: Context) -> bool:
    """Whether outputs of the model are standardized numbers, of a regression."""
    return context.info.kind == "regression" and context.info.target_scaling != NO_SCALING


def nearest_tasks(bank: Bank, task: str, count: int) -> list[tuple[str, float]]:
    """The tasks whose contexts are most similar to this one's, with their similarities, most similar first.

    Similarity is the cosine with the mean context removed. With few tasks the mean is largely the tasks themselves:
    among n, unrelated ones have about -1 / (n - 1).
    """
    names = bank.names()
    if task not in names:
        bank.get(task)  # raises TaskError with similar names
    contexts, _ = get_readable(bank, names)  # a damaged task is left out
    names = [context.name for context in contexts]
    if task not in names:
        bank.get(task)  # raises: it is the damaged one
    vectors = flatten([context.tensors for context in contexts])
    return [(names[i], value) for i, value in nearest(vectors, names.index(task), count)]
