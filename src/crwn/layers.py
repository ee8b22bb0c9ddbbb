"""Layers whose weights are frozen and whose context, `v` and `alpha`, is all that a task learns."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crwn import weights as frozen_weights
from crwn.errors import ConfigError, DataError

MODULATIONS = ("both", "local", "global")
STARTS = ("uniform", "ones")


class Modulated(nn.Module):
    """The context of one layer: `v` (local neuromodulation) and `alpha` (global), each learned or fixed.

    Args:
        shape: the shape of `v`.
        fan_in: how many inputs one output sees; `v` starts uniform in `+-start_scale / sqrt(fan_in)`.
        modulation: "both"; "local" fixes alpha at 1; "global" fixes v at its start.
        start: "uniform", or "ones".
    """

    v: Tensor
    alpha: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        fan_in: int,
        *,
        seed: int,
        name: str,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        nn.Module.__init__(self)  # whatever else a layer may be: its weights come from us
        if modulation not in MODULATIONS:
            raise ConfigError(f'unknown modulation "{modulation}": choose one of {", ".join(MODULATIONS)}')
        if start not in STARTS:
            raise ConfigError(f'unknown start "{start}" of the context: choose one of {", ".join(STARTS)}')
        if start == "ones":
            v = torch.full(shape, start_scale)
        else:
            v = frozen_weights.uniform(shape, seed=seed, name=f"v:{name}", bound=start_scale / math.sqrt(fan_in))
        self._keep("v", v, learned=modulation != "global")
        self._keep("alpha", torch.ones(()), learned=modulation != "local")

    def _keep(self, name: str, value: Tensor, *, learned: bool) -> None:
        if learned:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value, persistent=False)

    @property
    def gain(self) -> Tensor:
        """`alpha * v`: what the inputs of the frozen weights are multiplied by."""
        return self.alpha * self.v

    def gain_under(self, tensors: Mapping[str, Tensor], name: str) -> Tensor:
        """The same of the context `tensors`, in which this layer is called `name`; what is not in it is the layer's."""
        alpha, v = tensors.get(f"{name}.alpha"), tensors.get(f"{name}.v")
        if v is not None and getattr(tensors, "fresh", False):
            return v.mul_(self.alpha if alpha is None else alpha)
        return (self.alpha if alpha is None else alpha) * (self.v if v is None else v)

    @property
    def frozen_numbers(self) -> int:
        raise NotImplementedError


class ModulatedLinear(Modulated):
    """`y = alpha * (R ⊙ v) x`, computed as `R (alpha * v ⊙ x)`.

    This form builds no modulated matrix, needs no weight gradient, and lets rows of different tasks share
    one multiplication.

    Raises:
        DataError: the last dimension of the input is not `in_features`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        seed: int,
        name: str = "",
        weights: str = "gaussian",
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        # Made first: it refuses impossible sizes.
        frozen = frozen_weights.make(weights, in_features, out_features, seed=seed, name=name)
        super().__init__(
            (in_features,),
            in_features,
            seed=seed,
            name=name,
            modulation=modulation,
            start=start,
            start_scale=start_scale,
        )
        self.frozen = frozen

    @property
    def frozen_numbers(self) -> int:
        return self.frozen.in_features * self.frozen.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        if x.shape[-1] != self.frozen.in_features:
            raise DataError(f"rows have {x.shape[-1]} features, this layer takes {self.frozen.in_features}")
        out: Tensor = self.frozen(x, self.gain if gain is None else gain, spend=spend)
        return out

    @torch.no_grad()
    def baked(self) -> nn.Linear:
        """The plain layer of the same answers under the context that is in this one."""
        weight = self.frozen.dense() * self.gain
        bias = getattr(self, "bias", None)
        plain = nn.Linear(
            weight.shape[1], weight.shape[0], bias=bias is not None, device=weight.device, dtype=weight.dtype
        )
        plain.weight.copy_(weight)
        if bias is not None:
            plain.bias.copy_(bias)
        return plain


def context_names(model: nn.Module) -> list[str]:
    """Names of everything that belongs to a task: what is learned, and the statistics of normalisation layers."""
    learned = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    saved = set(model.state_dict(keep_vars=True))
    statistics = [
        name
        for name, buffer in model.named_buffers()
        if name in saved and name.rpartition(".")[2] in ("running_mean", "running_var")
    ]
    return learned + statistics


def context_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's own context, by name: what a new task starts from."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: tensors[name].detach() for name in context_names(model)}


def learned_numbers(model: nn.Module) -> int:
    """How many numbers a task learns: normalisation statistics are kept with a context but not learned."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def numbers_table(model: nn.Module) -> str:
    """A table of the layers with their frozen and learned numbers; empty where nothing is modulated."""
    rows = []
    for name, module in model.named_modules():
        if isinstance(module, Modulated):
            rows.append((name, type(module).__name__, module.frozen_numbers, learned_numbers(module)))
        elif isinstance(module, frozen_weights.SparseBinary):
            rows.append((name, "SparseBinary", module.out_features * module.inputs_per_node, 0))
    if not rows:
        return ""
    rows.append(("total", "", sum(row[2] for row in rows), learned_numbers(model)))
    width = max(len(row[0]) for row in rows)
    kind_width = max(len(row[1]) for row in rows)
    lines = [f"{'layer':<{width}}  {'kind':<{kind_width}}  {'frozen':>12}  {'learned':>9}"]
    lines += [
        f"{name:<{width}}  {kind:<{kind_width}}  {froz:>12,}  {learned:>9,}" for name, kind, froz, learned in rows
    ]
    return "\n".join(lines)
