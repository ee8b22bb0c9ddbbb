"""What would otherwise go wrong silently: modules that are not modulated, missing devices, rows of another scale."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from crwn.data import inputs
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling
from crwn.errors import ConfigError, ModelError, ScaleWarning
from crwn.learner.encode import encodable
from crwn.models import Network
from crwn.models.convert.checks import readable_errors
from crwn.models.convert.conversion import converted
from crwn.models.functional import replica

# Standardized rows have a mean square of 1. Rows this many times as large or small are not those a task learned from.
LARGE = 10.0
SMALL = 0.02
SAMPLE = 256


def check_modulated(model: nn.Module) -> None:
    """Raise ModelError for a plain module of torch's own layers: a task would learn, and store, all of its weights."""
    if isinstance(model, Network) or converted(model):
        return
    owners = [part for part in model.modules() if any(True for _ in part.parameters(recurse=False))]
    if owners and all(type(part).__module__.startswith("torch.nn") for part in owners):
        raise ModelError(
            f"{type(model).__name__} is a plain module whose weights are not frozen: "
            "pass crwn.neuromodulate(module, seed=0), which tasks modulate"
        )


def check_device(device: str | torch.device) -> torch.device:
    """The device, where this torch can compute on it."""
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ConfigError(f'unknown device "{device}": use "cpu" or "cuda"') from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f'device="{device}" but torch {torch.__version__} finds no CUDA here: use device="cpu"')
    return found


def outputs_by_trial(model: nn.Module, x: Any) -> int | None:
    """The number of outputs of a custom module that does not declare it, by calling it on a row or two of `x`."""
    few = _few(x)
    if few is None:
        return None
    with torch.no_grad(), readable_errors(model, few):
        out = replica(model).eval()(few)
    if isinstance(out, Tensor) and out.ndim == 2 and len(out) == len(few):
        return int(out.shape[1])
    what = f"of shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
    raise ModelError(f"the module returns {what} for {len(few)} rows: it must return logits [rows, classes]")


def _few(x: Any) -> Tensor | None:
    if isinstance(x, Rows):
        return x.inputs(slice(0, 2)) if len(x) else None
    if isinstance(x, DataLoader):
        first = next(iter(x), None)
        return None if first is None else inputs.as_tensor(first[0])[:2].float()
    if isinstance(x, Dataset):
        first = next(iter(x), None) if isinstance(x, IterableDataset) else x[0]
        return None if first is None else inputs.as_tensor(first[0])[None].float()
    if encodable(x) is not None:
        return None
    tensor = inputs.as_tensor(x)
    return tensor[:2].float() if tensor.ndim > 1 and len(tensor) else None


def warn_of_scale(rows: Rows, task: str, scaling: Scaling) -> None:
    """Warn where rows, standardized as the task's, are far from what it learned: bytes against 0..1, another unit."""
    if scaling == NO_SCALING or rows.standardized:
        return
    x = rows.inputs(slice(0, SAMPLE))
    size = float(x.square().mean().sqrt())
    if not math.isfinite(size):  # the outputs are not finite either, which is an error
        return
    varied = x.flatten(1) if x.ndim > 1 else x[:, None]
    spread = float((varied - varied.mean()).square().mean().sqrt())
    # A row of equal values, such as a blank image, has no spread in any unit.
    flat = bool((varied == varied[:, :1]).all())
    if size > LARGE:
        warnings.warn(
            f'these rows are {size:.0f} times as far from the mean as those that task "{task}" learned from: '
            "are they in another unit (0..255 instead of 0..1)?",
            ScaleWarning,
            stacklevel=2,
        )
    elif not flat and isinstance(scaling[0], float) and spread < SMALL:
        warnings.warn(
            f'these rows vary {1 / max(spread, 1e-9):.0f} times less than those that task "{task}" learned from: '
            "are they in another unit (0..1 instead of 0..255)?",
            ScaleWarning,
            stacklevel=2,
        )
