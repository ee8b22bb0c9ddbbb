"""Calls of modules in which several layers share a tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crwn.models.tied import functional_call_tied, tied_names


class Tied(nn.Module):
    """Two layers with one weight, and one layer with two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.two.weight = self.one.weight
        self.again = self.one

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.two(self.one(x)))


def test_names_of_shared_tensors() -> None:
    assert tied_names(Tied()) == (("two.weight", "one.weight"),)
    assert tied_names(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) == ()


def test_a_tensor_is_replaced_in_every_layer_that_shares_it_and_only_for_the_call() -> None:
    module, weight, x = Tied(), torch.randn(4, 4), torch.randn(3, 4)
    before = module.one.weight.detach().clone()
    for tied in (None, tied_names(module)):
        found = functional_call_tied(module, {"one.weight": weight}, x, tied)
        torch.testing.assert_close(found, x @ weight.T @ weight.T @ weight.T)
    assert module.one.weight is module.two.weight is module.again.weight
    assert torch.equal(module.one.weight, before)


def test_a_layer_that_is_given_its_own_tensor_keeps_it() -> None:
    module, x = Tied(), torch.randn(3, 4)
    first, second = torch.randn(4, 4), torch.randn(4, 4)
    found = functional_call_tied(module, {"one.weight": first, "two.weight": second}, x)
    torch.testing.assert_close(found, x @ first.T @ second.T @ first.T)
