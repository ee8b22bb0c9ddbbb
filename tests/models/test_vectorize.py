"""Functions over stacked arguments: what vmap refuses is computed one by one, every other error is raised."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crwn.models.vectorize import stacked, works_under_vmap


class OldStyle(torch.autograd.Function):
    """Has no `setup_context`, which vmap needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


def branch(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def recurrent(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    outputs, _ = nn.LSTM(3, 2)(x)
    return outputs


def in_place(x: Tensor) -> Tensor:
    total = torch.zeros(4, 3)
    total += x
    return total


def assign(x: Tensor) -> Tensor:
    out = torch.zeros(4, 3)
    out[:, 0] = x[:, 0]
    return out


def sparse(x: Tensor) -> Tensor:
    return torch.sparse.mm(x.to_sparse(), torch.ones(3, 2))


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "branch on a value": branch,
    "item": lambda x: x * x.sum().item(),
    "to a list": lambda x: x * x.flatten().tolist()[0],
    "to NumPy": lambda x: torch.from_numpy(x.numpy() * 2),
    "data": lambda x: x.data * 2,
    "a copy": lambda x: copy.deepcopy(x),
    "results of varying shape": lambda x: x[x > 0].sum() * x,
    "recurrent": recurrent,
    "in place": in_place,
    "assignment": assign,
    "out=": lambda x: torch.add(x, 1, out=torch.empty(4, 3)),
    "random numbers": lambda x: x + 0 * torch.rand(4, 3),
    "autograd.Function in the old style": lambda x: OldStyle.apply(x),
    "sparse": sparse,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_vmap_refuses_is_computed_one_by_one(name: str) -> None:
    function = REFUSED[name]
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([function(one) for one in x])
    torch.testing.assert_close(stacked(function)(x), expected)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (6x4 and 5x5)"),
        ValueError("of the function itself"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_errors_are_raised_and_the_work_is_not_repeated(error: Exception) -> None:
    calls = []

    def fails(x: Tensor) -> Tensor:
        calls.append(x)
        raise error

    with pytest.raises(type(error)) as raised:
        stacked(fails)(torch.zeros(5, 2))
    assert raised.value is error
    assert len(calls) == 1


def test_memory_that_cannot_be_had_is_reported() -> None:
    calls = []

    def greedy(x: Tensor) -> Tensor:
        calls.append(x)
        return x + torch.empty(10**15)

    with pytest.raises(RuntimeError, match="allocate"):
        stacked(greedy)(torch.zeros(3, 1))
    assert len(calls) == 1


def test_what_vmap_can_do_is_called_once() -> None:
    calls = []

    def double(x: Tensor) -> Tensor:
        calls.append(x)
        return x * 2

    assert torch.equal(stacked(double)(torch.ones(6, 2)), torch.full((6, 2), 2.0))
    assert len(calls) == 1


def test_works_under_vmap() -> None:
    x = torch.ones(2, 4, 3)
    assert works_under_vmap(lambda rows: rows + torch.rand(4, 3), x)
    assert not works_under_vmap(branch, x)
