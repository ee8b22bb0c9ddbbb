"""Lessons taught to a model: learned by an engine, kept in the bank as they are finished."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.bank import Bank, ResidentStack
from crwn.context import Context
from crwn.engine import Engine, Work
from crwn.lessons import SAMPLE, Lesson, progress_bar, spread
from crwn.prediction import predict_logits
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.training import Callback, replica

Start = list[Mapping[str, Tensor]] | None


@dataclass(frozen=True)
class Teaching:
    """One model, where what it learns is kept, and the lock under which it may be called."""

    model: nn.Module
    fingerprint: str
    bank: Bank
    resident: ResidentStack
    seed: int
    device: torch.device
    busy: threading.Lock

    def teach(
        self,
        groups: list[list[Lesson]],
        plan: Recipe,
        starts: Sequence[Start],
        *,
        replace: bool,
        engine: Engine,
        progress: bool,
        callbacks: Sequence[Callback],
    ) -> list[Context]:
        """Learn groups of lessons; every finished group is kept at once, so an interruption loses only what is left."""
        kept: list[Context] = []
        with self.busy:  # a prediction in another thread has its own context inside the model at this moment
            model = replica(self.model)
        work = [
            Work(model, [lesson.task for lesson in group], plan, self.seed, start, self.device)
            for group, start in zip(groups, starts, strict=True)
        ]
        with progress_bar(groups, plan, shown=progress) as tell:
            for number, learned in engine.run(work, callbacks=[*callbacks, tell]):
                pairs = zip(groups[number], learned, strict=True)
                with self.busy:
                    contexts = [lesson.context(one, self.fingerprint, self.model) for lesson, one in pairs]
                self.bank.put_many(contexts, replace=replace)
                for context in contexts:
                    self.resident.drop(context.name)  # it comes from the bank when asked for, if it is still there
                kept.extend(contexts)
        return kept

    def best_start(self, rows: Rows) -> str | None:
        """The task whose predictions fit these labelled rows best; None when no task does."""
        sample = spread(rows, SAMPLE)
        labels = sample.labels(slice(None))
        losses = {}
        for name in self.bank.names():
            tensors, facts = self.resident.take_with_facts([name])
            classes = len(facts[name].classes)
            if classes < int(labels.max()) + 1:
                continue
            own = {key: value[0] for key, value in tensors.items()}
            with self.busy:
                logits = predict_logits(self.model, own, sample, classes=classes)
            losses[name] = float(F.cross_entropy(logits, labels))
        return min(losses, key=losses.__getitem__) if losses else None
