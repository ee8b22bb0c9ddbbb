"""The weights of a module that are modulated, and those that cannot be."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from types import FunctionType, MethodType, ModuleType

import torch
from torch import Tensor, nn
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
        return self.owner.get_parameter(self.tensor)


def as_patterns(what: str, given: Chosen | str | type[nn.Module] | None) -> Chosen | None:
    """Names and types as a list, from a list or a single one."""
    if given is None:
        return None
    if not isinstance(given, str | type | Sequence | Set):
        raise ConfigError(f"{what} must be names or types of layers, got {given!r}")
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
    if not found:
        raise ModelError(f"{type(module).__name__} has no Linear, Conv1d, Conv2d or attention layer to modulate")
    if not chosen:
        names = ", ".join(dict.fromkeys(target.layer for target in found))
        raise ConfigError(f"include and exclude leave no layer to modulate (there are: {names})")
    for target in chosen:
        if parametrize.is_parametrized(target.owner, target.tensor) or target.tensor not in target.owner._parameters:
            raise ModelError(
                f'the weight of layer "{target.layer}" is made from other tensors (a parametrization, weight norm, '
                "pruning): make it plain first, or exclude the layer"
            )
    return chosen


def leaves_alone(module: nn.Module, pattern: str | type[nn.Module]) -> bool:
    """Whether the pattern matches a normalization or embedding layer, which can be left as it is."""
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
    """Ids of layers that cannot be replaced: they have hooks, or something else than their parent refers to them."""
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
    elif isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
        yield value.__self__
    elif depth:
        for one in _inside(value):
            yield from _layers_in(one, depth - 1)


def _inside(value: object) -> Iterable[object]:
    """The objects that an object refers to, where layers can be among them."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset | deque):
        return value
    if isinstance(value, partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, FunctionType):
        return _captured(value)
    if isinstance(value, Tensor | type | ModuleType | str | bytes):
        return ()
    return getattr(value, "__dict__", {}).values()


def _captured(function: FunctionType) -> list[object]:
    """The objects in the closure and the defaults of a function."""
    cells = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is still empty
            cells.append(cell.cell_contents)
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _check_functions(name: str, part: nn.Module) -> None:
    """Raise where a function captures a layer: functions are not copied with a module and would call the original."""
    own = [value for key, value in vars(part).items() if key not in ("_modules", "_parameters", "_buffers")]
    waiting = [(value, 5) for value in own]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, FunctionType) and any(isinstance(one, nn.Module) for one in _captured(value)):
            raise ModelError(
                f'"{name or type(part).__name__}" holds a function that calls a layer from outside (a lambda?), which '
                "no copy of the module could change: make it a method"
            )
        if depth and not isinstance(value, nn.Module):
            waiting += [(one, depth - 1) for one in _inside(value)]


def check_whole(module: nn.Module) -> None:
    """Raise for what cannot be converted, with its name."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"neuromodulate takes an nn.Module, got {module!r:.60}")
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ModelError(
            f"{type(module).__name__} is wrapped around the module: convert what is inside (module.module)"
        )
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise ModelError(f'layer "{name}" is a TorchScript module, which cannot be converted: give its source')
        if isinstance(part, EMBEDDINGS) and part.max_norm is not None:
            raise ModelError(f'layer "{name}" rewrites its weights when it is used (max_norm): set max_norm = None')
        if isinstance(part, EMBEDDINGS) and part.sparse:
            raise ModelError(f'layer "{name}" has sparse gradients: set sparse = False')
        for key, value in (*part._parameters.items(), *part._buffers.items()):
            if value is not None and not is_lazy(value):
                _check_tensor(f"{name}.{key}" if name else key, value)
        _check_functions(name, part)
        if any(is_lazy(value) for value in (*part._parameters.values(), *part._buffers.values())):
            raise ModelError(f'layer "{name}" is lazy, its shape is not known yet: call the module once first')
        if isinstance(part, _NormBase) and part.track_running_stats and part.momentum is None:
            raise ModelError(f'layer "{name}" averages over all batches (momentum=None): give it a momentum, like 0.1')
        if isinstance(part, Modulated):
            raise ModelError(f'layer "{name}" is modulated already: convert the original module')


def _check_tensor(name: str, value: Tensor) -> None:
    if value.device.type == "meta":
        raise ModelError(f'"{name}" has no values yet (it is on the meta device): load them first')
    if value.layout != torch.strided:
        raise ModelError(f'"{name}" is a sparse tensor, which cannot be kept: make it dense')
    if value.dtype == torch.complex128:
        raise ModelError(f'"{name}" is complex128, which cannot be kept: make it complex64, or two real tensors')


def check_untied(module: nn.Module, targets: list[Target]) -> None:
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for target in targets:
        same = names[id(target.weight)]
        if len(same) > 1:
            raise ModelError(f"{' and '.join(same)} are one tied weight: untie them, or exclude these layers")


def cannot(module: nn.Module) -> dict[str, str]:
    """Layers whose weights cannot be modulated and stay as they are, with the reason."""
    reasons = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.RNNBase | nn.RNNCellBase):
            reasons[name] = "recurrent: frozen, not modulated"
        elif isinstance(part, _ConvTransposeNd | nn.Conv3d | nn.Bilinear):
            reasons[name] = "frozen, not modulated"
        elif ".quantized" in type(part).__module__ and hasattr(part, "_packed_params"):
            reasons[name] = "quantised: frozen, not modulated"
    return reasons
