"""Training with differential privacy: clipped gradients of single rows, and noise, counted by Opacus's accountant.

A step takes every row with probability q, clips the gradient of each row's loss to a length C, adds them up, adds
Gaussian noise of deviation σ C and divides by the expected number of rows. What the accountant guarantees for all steps
holds for the context and whatever is computed from it, such as momentum and the average over steps. C is the usual
length of gradients of the untrained model on random inputs: it must not be measured on the rows.

`crwn.training.row_gradients` computes the gradients of single rows.
"""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from crwn.errors import ConfigError, DataError, MissingExtraError
from crwn.layers import context_tensors
from crwn.training.features import encoded_task
from crwn.training.loop import Learned
from crwn.training.row_gradients import RowGradients
from crwn.training.task import PreparedTask

AVERAGED = 0.5  # share of the steps, the last ones, over which the context is averaged


class PrivateSettings(BaseModel):
    """Settings of private training.

    Args:
        epsilon, delta: of the guarantee; one row more or less changes the probability of any outcome by a factor of
            at most `exp(epsilon)`, up to `delta`. `delta` should be well below one over the number of rows.
        batch_size: expected rows of a step; None for a sixtieth of the rows, and 256 at least.
        epochs: how often every row is expected to be used.
        rate: of the steps, for gradients in units of C and contexts in units of the root of their length.
        momentum: of the steps.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    batch_size: int | None = Field(None, ge=1)
    epochs: int = Field(20, ge=1)
    rate: float = Field(0.02, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)

    def schedule(self, rows: int) -> tuple[float, int]:
        """The share of rows that a step expects, and the number of steps."""
        share = min(1.0, (self.batch_size or max(256, rows // 60)) / rows)
        return share, max(1, round(self.epochs / share))


@dataclass(frozen=True)
class PrivateResult:
    """What was learned, and what was spent: the guarantee that holds for it."""

    learned: Learned
    epsilon: float
    noise: float
    share: float


def noise_for(settings: PrivateSettings, rows: int) -> tuple[float, float]:
    """The deviation of the noise that the guarantee needs, and the epsilon that it gives, both by Opacus.

    Raises:
        ConfigError: the guarantee cannot be reached.
        MissingExtraError: Opacus is not installed.
    """
    try:
        from opacus.accountants import RDPAccountant
        from opacus.accountants.utils import get_noise_multiplier
    except ImportError:
        raise MissingExtraError("learning with epsilon and delta", "privacy") from None
    share, steps = settings.schedule(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the orders that it tries
        try:
            noise = get_noise_multiplier(
                target_epsilon=settings.epsilon,
                target_delta=settings.delta,
                sample_rate=share,
                steps=steps,
                accountant="rdp",
            )
        except ValueError as error:
            raise ConfigError(
                f"epsilon {settings.epsilon:g} with delta {settings.delta:g} cannot be reached in {steps} steps "
                f"({' '.join(str(error).split())[:80]}): give a larger epsilon"
            ) from None
        accountant = RDPAccountant()
        accountant.history = [(noise, share, steps)]
        return noise, float(accountant.get_epsilon(settings.delta))


def train_private(
    model: nn.Module,
    task: PreparedTask,
    settings: PrivateSettings,
    *,
    start: Mapping[str, Tensor] | None = None,
    seed: int | None = None,
    report: Callable[[int, int], object] = lambda step, steps: None,
) -> PrivateResult:
    """Learn one task with differential privacy; its rows must not be scaled by what was measured on them.

    Args:
        seed: of sampling and noise, for tests: whoever knows it can take the noise away. By default it is secret.
        report: called with the number of steps done, and of all.

    Raises:
        ModelError: the model's rows influence each other, as with batch norm, or it has no context.
        DataError: a row stands for several, as with mirrored images, or has a weight.
    """
    began = time.perf_counter()
    if not len(task.rows):
        raise DataError(f'task "{task.name}" has no rows: learning needs at least one')
    if task.rows.weight is not None or task.kind != "classification":
        raise DataError("private learning takes rows of classes without weights: leave weights and kind out")
    network, ready = encoded_task(model, task)
    rows = ready.rows
    if len(rows) != len(task.rows):
        raise DataError(
            f"this model learns {len(rows) // len(task.rows)} copies of every row, which the guarantee would not "
            "cover: make it with mirror=False and shift=0"
        )
    gradients = RowGradients(network, task.classes)
    clip = gradients.usual_length(model, task.rows.inputs(slice(0, 1)).shape[1:])
    share, steps = settings.schedule(len(rows))
    noise, spent = noise_for(settings, len(rows))
    generator = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
    tensors = {name: value.detach().clone() for name, value in (start or context_tensors(model)).items()}
    moved = {name: torch.zeros_like(value) for name, value in tensors.items()}
    mean = {name: torch.zeros_like(value) for name, value in tensors.items()}
    rate = settings.rate * math.sqrt(sum(value.numel() for value in tensors.values()))
    first, loss = steps - max(1, int(AVERAGED * steps)), 0.0
    for step in range(steps):
        chosen = (torch.rand(len(rows), generator=generator) < share).nonzero()[:, 0]
        sums, loss = gradients.clipped_sum(tensors, rows.inputs(chosen), rows.labels(chosen), clip)
        for name, value in tensors.items():
            disturbed = sums[name] + noise * torch.randn(value.shape, generator=generator)
            moved[name].mul_(settings.momentum).add_(disturbed / (share * len(rows)))
            value.sub_(rate * moved[name])
            if step >= first:
                mean[name].add_(value / (steps - first))
        report(step + 1, steps)
    seconds = time.perf_counter() - began
    return PrivateResult(Learned(task.name, mean, steps, loss, seconds), spent, noise, share)
