"""A module of one's own tried on a few rows before it learns: what would go wrong later, or silently, is said now."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crwn.errors import ModelError
from crwn.layers import context_tensors
from crwn.own_modules import readable_errors
from crwn.prediction import swapped
from crwn.stacked import folds


def try_out(replica: nn.Module, x: Tensor) -> None:
    """Refuse a module that cannot learn, or whose answers would not be its own.

    Args:
        replica: a copy of the module that nobody else uses.
        x: a few rows.
    """
    learned = {name for name, value in replica.named_parameters() if value.requires_grad}
    tensors = {name: value.clone() for name, value in context_tensors(replica).items()}
    leaves = {name: tensors[name].requires_grad_() for name in tensors if name in learned}
    with _own_noise(), readable_errors(replica, x):
        with torch.enable_grad():
            logits = swapped(replica.train(), tensors, x)
            if not isinstance(logits, Tensor):
                return  # said in the first real step, with its numbers
            if not logits.requires_grad:
                raise ModelError(
                    "the module's answers do not depend on what a task learns: it detaches them, or computes without "
                    "gradients (no_grad, inference_mode)"
                )
            with _nothing_computed(replica):
                logits.sum().backward()  # type: ignore[no-untyped-call]
        idle = [name.rpartition(".")[0] for name, value in leaves.items() if value.grad is None]
        with torch.no_grad():
            before = torch.get_rng_state()
            swapped(replica.eval(), tensors, x)
            if not torch.equal(before, torch.get_rng_state()):
                raise ModelError(
                    "the module draws random numbers when it predicts, so that no answer would come twice: "
                    "draw them only while self.training"
                )
    if idle:
        names = ", ".join(dict.fromkeys(name.partition(".parametrizations")[0] for name in idle))
        warnings.warn(f"these layers take no part in the module's answers and learn nothing: {names}", stacklevel=2)


def one_at_a_time(replica: nn.Module, x: Tensor) -> bool:
    """Whether tasks of a module must be learned one after another.

    Because it draws random numbers while it learns (dropout; in a stack a task would draw others than alone), or does
    what cannot be done for several tasks at once.
    """
    with _own_noise(), torch.no_grad(), readable_errors(replica, x):
        before = torch.get_rng_state()
        replica.train()(x)
        if not torch.equal(before, torch.get_rng_state()):
            return True
        both = {name: torch.stack([value, value]) for name, value in context_tensors(replica).items()}
        return not folds(lambda tensors, rows: swapped(replica, tensors, rows), both, torch.stack([x, x]))


@contextmanager
def _own_noise() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


@contextmanager
def _nothing_computed(replica: nn.Module) -> Iterator[None]:
    """Refuse a module that is called again while gradients are taken: its task's tensors are no longer in it."""

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
