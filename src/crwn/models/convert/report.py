"""What a conversion did to every layer, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils import parametrize

from crwn.layers import learned_parameters
from crwn.models.convert.layers import ConvertedLinear, WeightModulation


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
            counts = f"{row.frozen:>12,}  {row.learned:>9,}"
            lines.append(f"{row.layer:<{width}}  {row.kind:<{kind_width}}  {counts}  {row.note}".rstrip())
        return "\n".join(lines)


def report(module: nn.Module, skipped: dict[str, str]) -> Report:
    rows = []
    for name, part in module.named_modules():
        if ".parametrizations" in f".{name}":
            continue
        own = list(part.named_parameters(recurse=False))
        frozen = sum(value.numel() for _, value in own if not value.requires_grad)
        learned = sum(value.numel() for _, value in own if value.requires_grad)
        kind, note = type(part).__name__, skipped.get(name, "")
        if isinstance(part, ConvertedLinear):
            kind, frozen = part.kind, frozen + part.frozen_parameters
        elif parametrize.is_parametrized(part):
            chains: Any = part.parametrizations
            kinds = [chain[0].kind for chain in chains.values() if isinstance(chain[0], WeightModulation)]
            kind = ", ".join([*kinds[:1], *(more.removeprefix("attention ") for more in kinds[1:])]) or kind
            for chain in chains.values():
                if isinstance(chain[0], WeightModulation):
                    frozen += chain[0].frozen_parameters
                    learned += learned_parameters(chain)
                else:  # a parametrization that the module had before
                    frozen += sum(value.numel() for value in chain.parameters())
        elif isinstance(part, _NormBase) and part.running_mean is not None:
            note = f"{2 * part.running_mean.numel():,} statistics kept with every task"
        if frozen or learned or note:
            rows.append(Row(name, kind, frozen, learned, note))
    return Report(tuple(rows))
