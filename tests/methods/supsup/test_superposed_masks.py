"""SupSup's own way to find a task, on masks made by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crwn.methods.superposed_masks import SuperposedMasks


class TestSuperposedMasks:
    @pytest.fixture
    def superposed(self) -> SuperposedMasks:
        made = object.__new__(SuperposedMasks)
        made.names = ["left", "right", "nothing"]
        # One layer, three outputs: "left" keeps what reads pixel 0, "right" what reads pixel 1.
        made.weights = [torch.tensor([[4.0, 4.0], [-4.0, 4.0], [4.0, -4.0]])]
        left, right = torch.tensor([[1.0, 0.0]] * 3), torch.tensor([[0.0, 1.0]] * 3)
        made.masks = [torch.stack([left, right, torch.zeros(3, 2)])]
        return made

    def test_slopes_are_those_of_the_entropy(self, superposed: SuperposedMasks) -> None:
        x, shares = torch.tensor([[0.7, 0.2]]), torch.tensor([0.5, 0.3, 0.2])

        def entropy(shares: Tensor) -> Tensor:
            weight = superposed.weights[0] * torch.einsum("k,koi->oi", shares, superposed.masks[0])
            p = (x @ weight.T).softmax(dim=-1)
            return -(p * p.log()).sum()

        asked = shares.clone().requires_grad_()
        (expected,) = torch.autograd.grad(entropy(asked), asked)
        torch.testing.assert_close(superposed.slopes(x, shares), expected)

    @pytest.mark.parametrize(("x", "task"), [([1.0, 0.0], "left"), ([0.0, 1.0], "right")])
    def test_both_ways_find_the_mask_that_reads_the_rows(
        self, superposed: SuperposedMasks, x: list[float], task: str
    ) -> None:
        rows = torch.tensor([x])
        assert superposed.one_shot(rows) == task
        assert superposed.binary(rows) == task
