"""Fine-tuning: one network taught task after task, nothing protected: the forgetting the others avoid."""

from __future__ import annotations

from crwn.layers import learned_numbers
from crwn.methods.independent import float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork


class Finetune(OneNetwork):
    """`y = W x` in every layer: every task goes on training the same weights."""

    name = "finetune"
    sizes = ("256",)

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        own = float_bytes(kept_numbers(self.model) - weights)
        note = "every task trains all weights again; one network of float32 is kept, spread over the tasks"
        note += statistics_note(self.model)
        return Counts(weights, weights / tasks, float_bytes(weights) // tasks + own, note)
