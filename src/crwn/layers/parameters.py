"""Which tensors of a model are its context, and how many parameters are frozen and learned."""

from __future__ import annotations

from torch import Tensor, nn

from crwn.layers.modulated import Modulated
from crwn.layers.weights import FilterBank, SparseBinary

STATISTICS = ("running_mean", "running_var")


def context_names(model: nn.Module) -> list[str]:
    """Names of all tensors that belong to a task: learned parameters, and statistics of normalization layers."""
    learned = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    saved = set(model.state_dict(keep_vars=True))
    statistics = [name for name, _ in model.named_buffers() if name in saved and name.rpartition(".")[2] in STATISTICS]
    return learned + statistics


def context_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The context that the model holds, by name: what a new task starts from."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: tensors[name].detach() for name in context_names(model)}


def learned_parameters(model: nn.Module) -> int:
    """The number of parameters that a task learns; normalization statistics are kept with a context, not learned."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def parameters_table(model: nn.Module) -> str:
    """A table of the layers with their frozen and learned parameters; empty where nothing is modulated."""
    rows = []
    for name, module in model.named_modules():
        if isinstance(module, Modulated):
            rows.append((name, type(module).__name__, module.frozen_parameters, learned_parameters(module)))
        elif isinstance(module, SparseBinary):
            rows.append((name, "SparseBinary", module.out_features * module.inputs_per_node, 0))
        elif isinstance(module, FilterBank):
            rows.append((name, "FilterBank", module.weight.numel(), 0))
    if not rows:
        return ""
    rows.append(("total", "", sum(row[2] for row in rows), learned_parameters(model)))
    width = max(len(row[0]) for row in rows)
    kind_width = max(len(row[1]) for row in rows)
    lines = [f"{'layer':<{width}}  {'kind':<{kind_width}}  {'frozen':>12}  {'learned':>9}"]
    lines += [
        f"{name:<{width}}  {kind:<{kind_width}}  {froz:>12,}  {learned:>9,}" for name, kind, froz, learned in rows
    ]
    return "\n".join(lines)
