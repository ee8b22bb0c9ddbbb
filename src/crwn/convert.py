"""Any `nn.Module`, neuromodulated: its weights frozen, and `v` and `alpha` in front of them learned by every task."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from crwn import weights as frozen_weights
from crwn.converted import ConvertedLinear, WeightModulation, frozen_values, put_back, random_weight, stamp
from crwn.errors import ConfigError, ModelError
from crwn.layers import MODULATIONS, Modulated, learned_numbers

LEARNABLE = ("bias", "norm", "embedding")
METHODS = ("auto", "parametrize", "layers")
WEIGHTS = ("random", "keep")
NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
# These read their layers' weights themselves instead of calling the layers.
READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)

Chosen = Sequence[str | type[nn.Module]]


@dataclass(frozen=True)
class Row:
    """One layer in the report."""

    layer: str
    kind: str
    frozen: int
    learned: int
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What a conversion did; prints as a table."""

    rows: tuple[Row, ...]

    @property
    def frozen(self) -> int:
        return sum(row.frozen for row in self.rows)

    @property
    def learned(self) -> int:
        return sum(row.learned for row in self.rows)

    def __str__(self) -> str:
        rows = [*self.rows, Row("total", "", self.frozen, self.learned)]
        width = max(len(row.layer) for row in rows)
        kind_width = max(len(row.kind) for row in rows)
        lines = [f"{'layer':<{width}}  {'kind':<{kind_width}}  {'frozen':>12}  {'learned':>9}"]
        for row in rows:
            numbers = f"{row.frozen:>12,}  {row.learned:>9,}"
            lines.append(f"{row.layer:<{width}}  {row.kind:<{kind_width}}  {numbers}  {row.note}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class Target:
    """A weight to be modulated."""

    layer: str
    tensor: str
    owner: nn.Module
    kind: str
    parts: int = 1

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.tensor}" if self.layer else self.tensor

    @property
    def weight(self) -> nn.Parameter:
        found: nn.Parameter = getattr(self.owner, self.tensor)
        return found


def neuromodulate(
    module: nn.Module,
    *,
    seed: int = 0,
    weights: str = "random",
    include: Chosen | None = None,
    exclude: Chosen | None = None,
    learn: Sequence[str] = (),
    method: str = "auto",
    modulation: str = "both",
    start: str | None = None,
) -> nn.Module:
    """A copy of the module whose Linear, Conv1d, Conv2d and attention weights R become `alpha * R ⊙ v`.

    A task learns `v` and `alpha` of every such layer; running statistics of normalisation layers are part of its
    context; everything else is frozen. `result.crwn_report` prints what was done to every layer, and
    `result.crwn_description` is what tells this conversion from another.

    Args:
        weights: "random" makes the frozen weights from the seed, resets their biases and the gains of normalisation
            layers, and draws embeddings from the seed; "keep" freezes the module's own, for pretrained backbones.
        include, exclude: names (patterns like "encoder.*" allowed) or types of layers to modulate, or not to; what
            is not modulated keeps weights and biases, and so do normalisation and embedding layers excluded by name.
        learn: what else a task learns: "bias", "norm" (gains and biases of normalisation layers), "embedding".
        method: "parametrize" modulates weights in place, "layers" puts faster layers of our own in the place of
            Linear layers; "auto" does that where nothing but the layer itself reads its weight.
        modulation: "both", "local" (no alpha) or "global" (no v).
        start: where `v` starts: "uniform" (usual for random weights) or "ones" (usual for kept ones: the module
            starts as it was).

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
    _check_choice("weights", weights, WEIGHTS)
    _check_choice("method", method, METHODS)
    _check_choice("modulation", modulation, MODULATIONS)
    for what in learn:
        _check_choice("learn", what, LEARNABLE)
    begin = start or ("ones" if weights == "keep" else "uniform")
    work = copy.deepcopy(module)
    _check_whole(work)
    structure = _structure(work)
    targets = _targets(work, include, exclude)
    _check_untied(work, targets)
    skipped = _cannot(work)
    for parameter in work.parameters():
        parameter.requires_grad_(False)
    made: set[str] = set()
    if weights == "random":
        made |= _reset(work, seed, targets, exclude or ())
    _release(work, learn)
    for target in targets:
        _modulate(work, target, weights, method, seed=seed, modulation=modulation, start=begin)
        if weights == "random":
            made.add(target.name)
    described = {
        "class": f"{type(module).__module__}.{type(module).__qualname__}",
        "seed": seed,
        "weights": weights,
        "modulated": [target.name for target in targets],
        "learn": sorted(set(learn)),
        "modulation": modulation,
        "start": begin,
        "structure": structure,
    }
    extras: Any = work
    extras.crwn_made = sorted(made)
    extras.crwn_description = described
    extras.crwn_report = _report(work, skipped)
    stamp(work)
    return work


def kept_weights(module: nn.Module) -> dict[str, Tensor]:
    """What has to be stored once with a converted module: every frozen value that the seed does not make again."""
    return frozen_values(module) if hasattr(module, "crwn_description") else {}


def load_kept_weights(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put what `kept_weights` gave back into a module converted by the same call."""
    put_back(module, tensors)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f'{name} cannot be "{value}": choose one of {", ".join(choices)}')


def _check_whole(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if any(is_lazy(value) for value in part._parameters.values()):
            raise ModelError(f'layer "{name}" is lazy, its shape is not known yet: call the module once first')
        if isinstance(part, _NormBase) and part.track_running_stats and part.momentum is None:
            raise ModelError(f'layer "{name}" averages over all batches (momentum=None): give it a momentum, like 0.1')
        if isinstance(part, Modulated):
            raise ModelError(f'layer "{name}" is modulated already: convert the original module')


def _candidates(module: nn.Module) -> Iterator[Target]:
    for name, part in module.named_modules():
        if isinstance(part, nn.MultiheadAttention):
            if part.in_proj_weight is not None:
                yield Target(name, "in_proj_weight", part, "attention q, k, v", 3)
            else:
                for letter in "qkv":
                    yield Target(name, f"{letter}_proj_weight", part, f"attention {letter}")
        elif isinstance(part, nn.Linear):
            yield Target(name, "weight", part, "Linear")
        elif isinstance(part, nn.Conv1d | nn.Conv2d):
            groups = f", {part.groups} groups" if part.groups > 1 else ""
            yield Target(name, "weight", part, f"{type(part).__name__}{groups}")


def _targets(module: nn.Module, include: Chosen | None, exclude: Chosen | None) -> list[Target]:
    found = list(_candidates(module))
    for label, patterns in (("include", include or ()), ("exclude", exclude or ())):
        for pattern in patterns:
            if not any(_fits(target, pattern) for target in found):
                shown = pattern if isinstance(pattern, str) else pattern.__name__
                names = ", ".join(dict.fromkeys(target.layer for target in found)) or "none"
                raise ConfigError(f'{label} names "{shown}", which fits no layer to modulate (there are: {names})')
    chosen = [
        target
        for target in found
        if (include is None or any(_fits(target, pattern) for pattern in include))
        and not any(_fits(target, pattern) for pattern in exclude or ())
    ]
    if not chosen:
        raise ModelError(f"{type(module).__name__} has no Linear, Conv1d, Conv2d or attention layer to modulate")
    for target in chosen:
        if parametrize.is_parametrized(target.owner, target.tensor) or target.tensor not in target.owner._parameters:
            raise ModelError(f'the weight of layer "{target.layer}" has a parametrization of its own: remove it first')
    return chosen


def _fits(target: Target, pattern: str | type[nn.Module]) -> bool:
    if isinstance(pattern, str):
        return fnmatchcase(target.layer, pattern) or fnmatchcase(target.name, pattern)
    return isinstance(target.owner, pattern)


def _check_untied(module: nn.Module, targets: list[Target]) -> None:
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for target in targets:
        same = names[id(target.weight)]
        if len(same) > 1:
            raise ModelError(f"{' and '.join(same)} are one tied weight: untie them, or exclude these layers")


def _cannot(module: nn.Module) -> dict[str, str]:
    """Layers with weights that stay frozen as they are, and why."""
    reasons = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.RNNBase | nn.RNNCellBase):
            reasons[name] = "recurrent: frozen, not modulated"
        elif isinstance(part, _ConvTransposeNd | nn.Conv3d | nn.Bilinear):
            reasons[name] = "frozen, not modulated"
        elif ".quantized" in type(part).__module__ and hasattr(part, "_packed_params"):
            reasons[name] = "quantised: frozen, not modulated"
    return reasons


@torch.no_grad()
def _reset(module: nn.Module, seed: int, targets: Sequence[Target], exclude: Chosen) -> set[str]:
    """Give biases, gains, statistics and embeddings values that need no storage; their names."""
    made = set()
    owners = {id(target.owner) for target in targets}
    for name, part in module.named_modules():
        prefix = f"{name}." if name else ""
        values: dict[str, float] = {}
        if id(part) in owners:
            values = {"bias": 0.0, "in_proj_bias": 0.0}
        elif any(isinstance(pattern, str) and fnmatchcase(name, pattern) for pattern in exclude):
            continue
        elif isinstance(part, NORMS):
            values = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
        elif isinstance(part, EMBEDDINGS):
            drawn, _ = frozen_weights.gaussian(tuple(part.weight.shape), seed=seed, name=f"embedding:{name}", std=1.0)
            part.weight.copy_(drawn)
            if part.padding_idx is not None:
                part.weight[part.padding_idx] = 0.0
            made.add(f"{prefix}weight")
        for attribute, value in values.items():
            tensor = getattr(part, attribute, None)
            if isinstance(tensor, Tensor):
                tensor.fill_(value)
                made.add(f"{prefix}{attribute}")
    return made


def _release(module: nn.Module, learn: Sequence[str]) -> None:
    """Let a task learn what is asked for, and drop batch counters: all state of a norm layer is the task's."""
    for part in module.modules():
        kind = "norm" if isinstance(part, NORMS) else "embedding" if isinstance(part, EMBEDDINGS) else "bias"
        for attribute, parameter in part.named_parameters(recurse=False):
            if kind in learn and (kind != "bias" or attribute in ("bias", "in_proj_bias")):
                parameter.requires_grad_()
        if isinstance(part, _NormBase):
            part.num_batches_tracked = None


def _modulate(
    module: nn.Module, target: Target, weights: str, method: str, *, seed: int, modulation: str, start: str
) -> None:
    layer, name = target.owner, target.name
    own = target.weight.detach().clone()
    parent = module.get_submodule(target.layer.rpartition(".")[0])
    read = isinstance(parent, READERS) or type(layer) is not nn.Linear or layer is module
    if method == "layers" and read and isinstance(layer, nn.Linear):
        raise ModelError(f'layer "{target.layer}" cannot be replaced, others read its weight: use method="auto"')
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
    """SHA-256 of every part's name, type and shapes."""
    lines = []
    for name, part in module.named_modules():
        shapes = {key: tuple(value.shape) for key, value in part.named_parameters(recurse=False)}
        lines.append(f"{name}:{type(part).__qualname__}:{part.extra_repr()}:{shapes}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _report(module: nn.Module, skipped: dict[str, str]) -> Report:
    rows = []
    for name, part in module.named_modules():
        if ".parametrizations" in f".{name}":
            continue
        own = list(part.named_parameters(recurse=False))
        frozen = sum(value.numel() for _, value in own if not value.requires_grad)
        learned = sum(value.numel() for _, value in own if value.requires_grad)
        kind, note = type(part).__name__, skipped.get(name, "")
        if isinstance(part, ConvertedLinear):
            kind, frozen = part.kind, frozen + part.frozen_numbers
        elif parametrize.is_parametrized(part):
            chains: Any = part.parametrizations
            for chain in chains.values():
                kind, frozen, learned = (
                    chain[0].kind,
                    frozen + chain[0].frozen_numbers,
                    learned + learned_numbers(chain),
                )
        elif isinstance(part, _NormBase) and part.running_mean is not None:
            note = f"{2 * part.running_mean.numel():,} statistics kept with every task"
        if frozen or learned or note:
            rows.append(Row(name, kind, frozen, learned, note))
    return Report(tuple(rows))
