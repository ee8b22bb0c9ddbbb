"""A custom module tried on a few rows before it learns, to report what would go wrong later, or silently."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.errors import ModelError
from crwn.layers import context_tensors
from crwn.models.convert.checks import readable_errors
from crwn.models.tied import functional_call_tied
from crwn.models.vectorize import works_under_vmap


def try_out(replica: nn.Module, x: Tensor) -> None:
    """Check that a converted module can learn and predict.

    Args:
        replica: a copy of the module that nothing else uses.
        x: a few rows.

    Raises:
        ModelError: the outputs do not depend on the context, the module is called again in the backward pass, or it
            draws random numbers when it predicts.
    """
    learned = {name for name, value in replica.named_parameters() if value.requires_grad}
    tensors = {name: value.clone() for name, value in context_tensors(replica).items()}
    leaves = {name: tensors[name].requires_grad_() for name in tensors if name in learned}
    with _restored_generator(), readable_errors(replica, x):
        with torch.enable_grad():
            logits = functional_call_tied(replica.train(), tensors, x)
            if not isinstance(logits, Tensor):
                return  # the first real step raises this error, with the shapes
            if not logits.requires_grad:
                raise ModelError(
                    "the module's outputs do not depend on what a task learns: it detaches them, or computes without "
                    "gradients (no_grad, inference_mode)"
                )
            with _no_recomputation(replica):
                logits.sum().backward()  # type: ignore[no-untyped-call]
        idle = [name.rpartition(".")[0] for name, value in leaves.items() if value.grad is None]
        with torch.no_grad():
            before = torch.get_rng_state()
            functional_call_tied(replica.eval(), tensors, x)
            if not torch.equal(before, torch.get_rng_state()):
                raise ModelError(
                    "the module draws random numbers when it predicts, so that predictions could not be repeated: "
                    "draw them only while self.training"
                )
    if idle:
        names = ", ".join(dict.fromkeys(name.partition(".parametrizations")[0] for name in idle))
        warnings.warn(f"these layers do not affect the module's outputs and learn nothing: {names}", stacklevel=2)


def one_at_a_time(replica: nn.Module, x: Tensor) -> bool:
    """Whether tasks of a module must be learned one after another.

    That is so where it draws random numbers while it learns (dropout; in a stack a task would draw others than alone),
    or where vmap cannot compute it.
    """
    with _restored_generator(), torch.no_grad(), readable_errors(replica, x):
        before = torch.get_rng_state()
        replica.train()(x)
        if not torch.equal(before, torch.get_rng_state()):
            return True
        both = {name: torch.stack([value, value]) for name, value in context_tensors(replica).items()}

        def call(tensors: dict[str, Tensor], rows: Tensor) -> Tensor:
            return functional_call_tied(replica, tensors, rows)

        return not works_under_vmap(call, both, torch.stack([x, x]))


@contextmanager
def _restored_generator() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


@contextmanager
def _no_recomputation(replica: nn.Module) -> Iterator[None]:
    """Raise where the module is called again in the backward pass: the task's tensors are no longer in it."""

    def refuse(*_: object) -> None:
        raise ModelError(
            "the module recomputes activations when gradients are taken (torch.utils.checkpoint), and would do so "
            "without the task's tensors: turn that off"
        )

    hooks = [part.register_forward_pre_hook(refuse) for part in replica.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
