"""How good a task's context is on some rows, beside what it must beat: always answering the commonest class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crwn.contexts import ContextInfo
from crwn.training.task import PreparedTask

# Classes count as unequal where the commonest has more than this many times its equal share of the rows.
UNEQUAL = 1.2
# A balanced accuracy this many percent points above that of a constant answer is worth something at any accuracy.
WORTH = 10.0


def judge(task: PreparedTask, logits: Tensor, y: Tensor) -> dict[str, float]:
    """Facts for a context, in percent: `accuracy`, `majority`, `balanced_accuracy`; `r2` and `rmse` of a regression."""
    if task.kind == "regression":
        return _regression(logits, y, torch.tensor(task.target_scaling[1], dtype=torch.float64))
    if task.kind == "multilabel":
        parts = [_classes(column, truth.long(), 2) for column, truth in zip((logits > 0).long().T, y.T, strict=True)]
        return {key: round(sum(part[key] for part in parts) / len(parts), 2) for key in parts[0]}
    return _classes(logits.argmax(dim=1), y, task.classes)


def _classes(found: Tensor, y: Tensor, classes: int) -> dict[str, float]:
    right = (found == y).double()
    counts = torch.bincount(y, minlength=classes)
    hits = torch.zeros(len(counts), dtype=torch.float64).index_add_(0, y, right)
    present = counts > 0
    return {
        "accuracy": round(100 * float(right.mean()), 2),
        "majority": round(100 * float(counts.max()) / len(y), 2),
        "balanced_accuracy": round(100 * float((hits[present] / counts[present]).mean()), 2),
    }


def _regression(outputs: Tensor, y: Tensor, deviation: Tensor) -> dict[str, float]:
    errors = (outputs.double() - y.double()).square()
    spread = (y.double() - y.double().mean(dim=0)).square().sum(dim=0).clamp_min(1e-12)
    r2 = 1 - errors.sum(dim=0) / spread
    return {
        "r2": round(float(r2.mean()), 4),
        "rmse": float(f"{float((errors.mean(dim=0).sqrt() * deviation).mean()):.4g}"),
    }


@dataclass(frozen=True)
class Verdict:
    """The figures of one task as text, and a warning where its context is of no use."""

    figures: str
    warning: str | None = None


def verdict(info: ContextInfo | Mapping[str, object], classes: int) -> Verdict:
    """What `crwn learn` and `crwn tasks` show of the facts that `judge` measured."""
    facts = info if isinstance(info, ContextInfo) else ContextInfo.from_mapping(info)
    if facts.r2 is not None and facts.rmse is not None:
        poor = "no better than always answering the mean" if facts.r2 <= 0 else None
        return Verdict(f"R2 {facts.r2:.3f}, error {facts.rmse:g}", poor)
    accuracy = facts.training_accuracy if facts.accuracy is None else facts.accuracy
    if accuracy is None:
        return Verdict("")
    parts = [f"{accuracy:.1f}%"]
    if facts.majority is None:
        return Verdict(parts[0])
    constant = 50.0 if facts.kind == "multilabel" else 100 / max(1, classes)
    parts.append(f"majority {facts.majority:.1f}%")
    if facts.balanced_accuracy is not None and facts.majority > UNEQUAL * constant:
        parts.append(f"balanced {facts.balanced_accuracy:.1f}%")
    useless = accuracy <= facts.majority and (facts.balanced_accuracy or 0.0) < constant + WORTH
    return Verdict(", ".join(parts), "no better than always answering the commonest class" if useless else None)
