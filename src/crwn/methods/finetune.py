"""Fine-tuning: one network trained on one task after another without protection, as a measure of forgetting."""

from __future__ import annotations

from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork


class Finetune(OneNetwork):
    """`y = W x` in every layer: every task continues to train the same W."""

    name = "finetune"
    sizes = ("256",)

    def counts(self, tasks: int) -> Counts:
        note = "every task trains all weights again; one network of float32 is kept, spread over the tasks"
        return self.shared_counts(tasks, note)
