"""PSP: one set of weights for all tasks in superposition, each task seeing its inputs rotated its own way."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from crwn.layers import learned_numbers
from crwn.methods.image_networks import SignedKernel, baseline
from crwn.methods.independent import float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.networks import Rotated
from crwn.methods.one_network import OneNetwork
from crwn.methods.published import has_images, published_recipe
from crwn.prediction import predict_logits
from crwn.recipe import Recipe
from crwn.rows import Rows, TaskRows, named_generator
from crwn.scenarios import Task
from crwn.weights import gaussian

SEED_BYTES = 8


class PSP(OneNetwork):
    """`y = W (C_k x)` in every layer: C_k is a random rotation that belongs to task k, W is trained by every task.

    On images it is the binary form: `(W ⊙ o_k) conv x` with random signs o_k.
    """

    name = "psp"
    sizes = ("256",)
    _turned: int | None = None  # the seed of the rotations that are in the network now

    def network(self) -> nn.Module:
        return baseline(
            self.scenario,
            self.size,
            lambda i, o, name: Rotated(i, o, seed=self.seed, name=name),
            partial(SignedKernel, seed=self.seed),
            method=self.name,
        )

    @property
    def answers_by_task(self) -> bool:
        return True  # a task's rotation or signs

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-4, image_rate=1e-3)

    def lesson(self, task: Task) -> TaskRows:
        self._turn_to(task)
        return super().lesson(task)

    def logits(self, task: Task, rows: Rows) -> Tensor:
        self._turn_to(task)
        return predict_logits(self.model, self.tensors(task), rows, classes=len(task.classes))

    def task_seed(self, task: Task) -> int:
        """The number a task's rotations are made from: all that is kept of them."""
        return int(named_generator("psp", self.seed, task.name).integers(2**63))

    def _turn_to(self, task: Task) -> None:
        seed = self.task_seed(task)
        if self._turned == seed:
            return
        for name, layer in self.model.named_modules():
            if isinstance(layer, Rotated):
                layer.rotation = random_rotation(len(layer.rotation), seed=seed, name=name)
            elif isinstance(layer, SignedKernel):
                layer.turn_to(seed=seed, name=name)
        self._turned = seed

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        if has_images(self.scenario):
            note = (
                f"as the paper counts: the weights, trained again by every task; kept are {SEED_BYTES} bytes of seed "
                "for the signs, and the float32 weights spread over the tasks" + statistics_note(self.model)
            )
            kept = SEED_BYTES + float_bytes(kept_numbers(self.model) - weights) + float_bytes(weights) // tasks
            return Counts(weights, weights, kept, note)
        rotations = sum(layer.rotation.numel() for layer in self.model.modules() if isinstance(layer, Rotated))
        note = (
            f"as the paper counts: {weights:,} weights, trained again by every task, and {rotations:,} numbers of "
            f"rotations, which are fixed; kept are {SEED_BYTES} bytes of seed for these, and the float32 weights "
            "spread over the tasks"
        )
        count = weights + rotations
        return Counts(count, count, SEED_BYTES + float_bytes(weights) // tasks, note)

    def task_state(self, task: Task) -> dict[str, Tensor]:
        return super().task_state(task) | {"seed": torch.tensor(self.task_seed(task))}


def random_rotation(size: int, *, seed: int, name: str) -> Tensor:
    """A random orthogonal matrix, uniform over all of them (Haar): Q of a Gaussian's QR with R's signs."""
    drawn, _ = gaussian((size, size), seed=seed, name=f"rotation:{name}", std=1 / math.sqrt(size))
    q, r = torch.linalg.qr(drawn.double())
    turned: Tensor = (q * r.diagonal().sign()).float()
    return turned
