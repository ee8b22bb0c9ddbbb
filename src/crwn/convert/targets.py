"""Which weights of a module are modulated, and which cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from crwn.errors import ConfigError, ModelError
from crwn.layers import Modulated

Chosen = Sequence[str | type[nn.Module]]

NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
KEPT = (*NORMS, *EMBEDDINGS)


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


def as_patterns(what: str, given: Chosen | str | type[nn.Module] | None) -> Chosen | None:
    """Names and types as a list; one of them may be given alone."""
    if given is None:
        return None
    patterns = [given] if isinstance(given, str | type) else list(given)
    for pattern in patterns:
        if not isinstance(pattern, str) and not (isinstance(pattern, type) and issubclass(pattern, nn.Module)):
            raise ConfigError(f"{what} must be names or types of layers, got {pattern!r}")
    return patterns


def find_targets(module: nn.Module, include: Chosen | None, exclude: Chosen | None) -> list[Target]:
    found = list(_candidates(module))
    for label, patterns in (("include", include or ()), ("exclude", exclude or ())):
        for pattern in patterns:
            known = any(_fits(target, pattern) for target in found)
            if not known and not (label == "exclude" and leaves_alone(module, pattern)):
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


def leaves_alone(module: nn.Module, pattern: str | type[nn.Module]) -> bool:
    """Whether the pattern is of a normalisation or embedding layer, which can be kept as it is."""
    return any(fits_layer(name, part, pattern) for name, part in module.named_modules() if isinstance(part, KEPT))


def fits_layer(name: str, part: nn.Module, pattern: str | type[nn.Module]) -> bool:
    return fnmatchcase(name, pattern) if isinstance(pattern, str) else isinstance(part, pattern)


def _fits(target: Target, pattern: str | type[nn.Module]) -> bool:
    if isinstance(pattern, str):
        return fnmatchcase(target.layer, pattern) or fnmatchcase(target.name, pattern)
    return isinstance(target.owner, pattern)


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


def held_elsewhere(module: nn.Module) -> set[int]:
    """Ids of layers that cannot be put out of their places: with hooks, or held in lists and methods besides."""
    found = set()
    for part in module.modules():
        if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks:
            found.add(id(part))
        own = [value for name, value in vars(part).items() if name != "_modules"]
        found |= {id(layer) for layer in _layers_in(own, depth=5)}
    return found


def _layers_in(value: object, depth: int) -> Iterator[nn.Module]:
    if isinstance(value, nn.Module):
        yield value
    elif isinstance(holder := getattr(value, "__self__", None), nn.Module):  # a bound method
        yield holder
    elif depth and isinstance(value, Mapping):
        for one in value.values():
            yield from _layers_in(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _layers_in(one, depth - 1)


def check_whole(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if any(is_lazy(value) for value in (*part._parameters.values(), *part._buffers.values())):
            raise ModelError(f'layer "{name}" is lazy, its shape is not known yet: call the module once first')
        if isinstance(part, _NormBase) and part.track_running_stats and part.momentum is None:
            raise ModelError(f'layer "{name}" averages over all batches (momentum=None): give it a momentum, like 0.1')
        if isinstance(part, Modulated):
            raise ModelError(f'layer "{name}" is modulated already: convert the original module')


def check_untied(module: nn.Module, targets: list[Target]) -> None:
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for target in targets:
        same = names[id(target.weight)]
        if len(same) > 1:
            raise ModelError(f"{' and '.join(same)} are one tied weight: untie them, or exclude these layers")


def cannot(module: nn.Module) -> dict[str, str]:
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
