"""Conversion of any `nn.Module`: its weights are frozen, and every task learns `v` and `alpha` that modulate them."""

from __future__ import annotations

import copy
import hashlib
import operator
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils import parametrize

from crwn.errors import ConfigError, ModelError
from crwn.layers import MODULATIONS
from crwn.layers import weights as frozen_weights
from crwn.models.convert.kept import checksum, record_checksums, update_fingerprints
from crwn.models.convert.layers import ConvertedLinear, WeightModulation, random_weight
from crwn.models.convert.report import report
from crwn.models.convert.targets import (
    EMBEDDINGS,
    NORMS,
    Chosen,
    Target,
    as_patterns,
    cannot,
    check_untied,
    check_whole,
    find_targets,
    fits_layer,
    held_elsewhere,
)

LEARNABLE = ("bias", "norm", "embedding")
METHODS = ("auto", "parametrize", "layers")
WEIGHTS = ("random", "keep")
# These read the weights of their layers instead of calling the layers.
READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


def neuromodulate(
    module: nn.Module,
    *,
    seed: int = 0,
    weights: str = "random",
    include: Chosen | str | type[nn.Module] | None = None,
    exclude: Chosen | str | type[nn.Module] | None = None,
    learn: Sequence[str] | str | None = None,
    method: str = "auto",
    modulation: str = "both",
    start: str | None = None,
) -> nn.Module:
    """A copy of the module whose Linear, Conv1d, Conv2d and attention weights R become `alpha * R ⊙ v`.

    A task learns `v` and `alpha` of every such layer; running statistics of normalisation layers are part of its
    context; everything else is frozen. `result.crwn_report` is a table of the layers, and `result.crwn_description`
    identifies this conversion.

    Args:
        weights: "random" makes the frozen weights from the seed, resets their biases and the gains of normalisation
            layers, and draws embeddings from the seed; "keep" freezes the module's weights, for pretrained backbones.
        include, exclude: names (patterns like "encoder.*" allowed) or types of layers to modulate, or not to; what
            is not modulated keeps weights and biases, and so do normalisation and embedding layers that are excluded.
        learn: what else a task learns: "bias", "norm" (gains and biases of normalisation layers), "embedding".
        method: "parametrize" modulates weights in place, "layers" replaces Linear layers by faster
            ones; "auto" does that where nothing but the layer itself reads its weight.
        modulation: "both", "local" (no alpha) or "global" (no v).
        start: where `v` starts: "uniform" (the default for random weights) or "ones" (the default for kept ones: the
            outputs start as they were).

    Raises:
        ConfigError: a setting that is not allowed, or a name or type that fits no layer.
        ModelError: nothing to modulate; lazy layers, tied weights or weights with a parametrization of their own.

    >>> net = neuromodulate(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), seed=0)
    >>> print(net.crwn_report)
    layer  kind          frozen    learned
    0      Linear           144          9
    2      Linear            51         17
    total                   195         26
    """
    seed = _checked_seed(seed)
    _check_choice("weights", weights, WEIGHTS)
    _check_choice("method", method, METHODS)
    _check_choice("modulation", modulation, MODULATIONS)
    include, exclude = as_patterns("include", include), as_patterns("exclude", exclude)
    learn = [learn] if isinstance(learn, str) else list(learn or ())
    for what in learn:
        _check_choice("learn", what, LEARNABLE)
    begin = start or ("ones" if weights == "keep" else "uniform")
    check_whole(module)
    try:
        work = copy.deepcopy(module)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"the module cannot be copied: {str(error).splitlines()[0]}") from None
    structure = _structure(work)
    targets = find_targets(work, include, exclude)
    check_untied(work, targets)
    skipped = cannot(work)
    for parameter in work.parameters():
        parameter.requires_grad_(False)
    made: set[str] = set()
    if weights == "random":
        made |= _reset(work, seed, targets, exclude or ())
    _unfreeze(work, learn)
    held = held_elsewhere(work)
    for target in targets:
        _modulate(work, target, weights, method, held, seed=seed, modulation=modulation, start=begin)
        if weights == "random":
            made.add(target.name)
    described = {
        "class": type(module).__qualname__,  # without its module: a class of a script may be imported later
        "seed": seed,
        "weights": weights,
        "modulated": [target.name for target in targets],
        "learn": sorted(set(learn)),
        "modulation": modulation,
        "start": begin,
        "structure": structure,
    }
    added: Any = work
    added.crwn_made = sorted(made)
    added.crwn_description = described
    added.crwn_report = report(work, skipped)
    record_checksums(work)
    update_fingerprints(work)
    return work


def _checked_seed(seed: object) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise ConfigError(f"seed must be a whole number, got {seed!r}")
    return operator.index(seed)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f'{name} cannot be "{value}": choose one of {", ".join(choices)}')


@torch.no_grad()
def _reset(module: nn.Module, seed: int, targets: Sequence[Target], exclude: Chosen) -> set[str]:
    """Set biases, gains, statistics and embeddings to values that need no storage; return their names."""
    made = set()
    owners = {id(target.owner) for target in targets}
    for name, part in module.named_modules():
        prefix = f"{name}." if name else ""
        values: dict[str, float] = {}
        if id(part) in owners:
            values = {"bias": 0.0, "in_proj_bias": 0.0}
        elif any(fits_layer(name, part, pattern) for pattern in exclude):
            continue
        elif isinstance(part, NORMS):
            values = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
        elif isinstance(part, EMBEDDINGS):
            drawn, _ = frozen_weights.gaussian(tuple(part.weight.shape), seed=seed, name=f"embedding:{name}", std=1.0)
            part.weight.copy_(drawn)
            if part.padding_idx is not None:
                part.weight[part.padding_idx] = 0.0
            made.add(f"{prefix}weight")
        own = dict(part.named_parameters(recurse=False)) | dict(part.named_buffers(recurse=False))
        for attribute in values.keys() & own.keys():
            own[attribute].fill_(values[attribute])
            made.add(f"{prefix}{attribute}")
    return made


def _unfreeze(module: nn.Module, learn: Sequence[str]) -> None:
    """Make what a task also learns trainable, and remove batch counters: all state of a norm belongs to the task."""
    for part in module.modules():
        kind = "norm" if isinstance(part, NORMS) else "embedding" if isinstance(part, EMBEDDINGS) else "bias"
        for attribute, parameter in part.named_parameters(recurse=False):
            if kind in learn and (kind != "bias" or attribute in ("bias", "in_proj_bias")):
                parameter.requires_grad_()
        if isinstance(part, _NormBase):
            part.num_batches_tracked = None


def _modulate(
    module: nn.Module,
    target: Target,
    weights: str,
    method: str,
    held: Collection[int],
    *,
    seed: int,
    modulation: str,
    start: str,
) -> None:
    layer, name = target.owner, target.name
    own = target.weight.detach().clone()
    parent = module.get_submodule(target.layer.rpartition(".")[0])
    read = isinstance(parent, READERS) or type(layer) is not nn.Linear or layer is module or id(layer) in held
    if method == "layers" and read and isinstance(layer, nn.Linear):
        raise ModelError(
            f'layer "{target.layer}" cannot be replaced, others hold it or read its weight: use method="auto"'
        )
    if method != "parametrize" and isinstance(layer, nn.Linear) and not read:
        made = ConvertedLinear(layer, seed=seed, name=name, modulation=modulation, start=start)
        if weights == "keep":
            made.to(own.dtype).frozen.get_buffer("weight").copy_(own)
        setattr(parent, target.layer.rpartition(".")[2], made.to(own.device, own.dtype).train(layer.training))
        return
    added = WeightModulation(
        own, seed=seed, name=name, modulation=modulation, start=start, kind=target.kind, parts=target.parts
    ).to(own.device, own.dtype)
    if weights == "random":
        drawn, added.fingerprint = random_weight(tuple(own.shape), seed=seed, name=name)
        with torch.no_grad():
            target.weight.copy_(drawn)
    parametrize.register_parametrization(layer, target.tensor, added, unsafe=True)


def _structure(module: nn.Module) -> str:
    """SHA-256 of every part's name, type, shapes and settings."""
    lines = []
    for name, part in module.named_modules():
        shapes = {key: tuple(value.shape) for key, value in part.named_parameters(recurse=False)}
        settings = {key: _as_text(value) for key, value in sorted(vars(part).items()) if _is_setting(key)}
        known = {key: value for key, value in settings.items() if value is not None}
        lines.append(f"{name}:{type(part).__qualname__}:{part.extra_repr()}:{shapes}:{known}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _is_setting(name: str) -> bool:
    return not name.startswith("_") and name not in ("training", "device", "classes", "input_shape", "suggested_rate")


def _as_text(value: object) -> str | None:
    """A setting as text that is the same in every process; None where there is no such text."""
    if isinstance(value, Tensor | np.ndarray):  # neither parameter nor buffer: no checksum covers it
        return checksum({"": torch.as_tensor(value)})
    if isinstance(value, str):
        return None if "/" in value or "\\" in value else repr(value)  # paths differ between machines
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        parts = [_as_text(one) for one in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    if callable(value) and not isinstance(value, nn.Module):
        return getattr(value, "__qualname__", None)
    return None
