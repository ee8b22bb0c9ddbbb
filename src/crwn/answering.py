"""Outputs of a model under contexts that are held ready: one task for all rows, or one for each."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crwn.bank import ResidentStack
from crwn.inputs import scaled
from crwn.prediction import mixed_logits, predict_logits
from crwn.rows import Rows
from crwn.scaling import scaling_of, scalings, standardised

Classes = dict[str, tuple[Hashable, ...]]
MOST_ROWS = 1024


@dataclass(frozen=True)
class Answering:
    """One model, the contexts ready for it, and the lock under which it may be called.

    `functional_call` swaps tensors inside the module for a moment, so there is one prediction at a time.
    """

    model: nn.Module
    resident: ResidentStack
    device: torch.device
    busy: threading.Lock

    def of_one(self, rows: Rows, task: str) -> tuple[Tensor, Classes]:
        """Logits `[rows, classes of the task]`."""
        tensors, facts = self.resident.take_with_facts([task])
        classes = facts[task].classes
        if not len(rows):
            return torch.zeros(0, len(classes)), {task: classes}
        own = {name: value[0] for name, value in tensors.items()}
        ready = scaled(rows, scaling_of(facts[task].info))
        with self.busy:
            logits = predict_logits(self.model, own, ready, classes=len(classes), device=self.device)
        return logits, {task: classes}

    def of_each(self, rows: Rows, names: Sequence[str], outputs: int) -> tuple[Tensor, Classes]:
        """Logits `[rows, outputs]` of rows that each have a task, `-inf` where theirs has no class."""
        parts: list[Tensor] = [torch.zeros(0, outputs)]
        classes: Classes = {}
        size = min(MOST_ROWS, self.resident.capacity)
        for at in range(0, len(names), size):
            some = list(names[at : at + size])
            # In this order everywhere: inferring a task asks for contexts while it has the model.
            with self.busy, self.resident.holding(some) as (tensors, facts):
                own = scalings([scaling_of(facts[name].info) for name in some])
                x = standardised(rows.inputs(slice(at, at + size)), own)
                if self.device.type != "cpu":
                    tensors = {name: value.to(self.device) for name, value in tensors.items()}
                logits = mixed_logits(self.model, tensors, x.to(self.device)).float().cpu()
            counts = torch.tensor([len(facts[name].classes) for name in some])
            parts.append(logits.masked_fill(torch.arange(logits.shape[1]) >= counts[:, None], -torch.inf))
            classes |= {name: fact.classes for name, fact in facts.items()}
        return torch.cat(parts), classes
