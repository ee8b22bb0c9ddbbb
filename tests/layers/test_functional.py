"""Products with a learned gain: values and gradients of the plain formula, alone, stacked and with shared rows."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from crwn.layers.functional import modulated_linear, modulated_linear_by_matrix

Product = Callable[[Tensor, Tensor, Tensor], Tensor]


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def formula(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("...ri,...i,oi->...ro", x, gain, weight)


def gradients(out: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((out * numbers(*out.shape)).sum(), leaves)


@pytest.mark.parametrize("product", [modulated_linear, modulated_linear_by_matrix])
@pytest.mark.parametrize("shape", [(6, 5), (2, 6, 5)])
def test_one_gain(product: Product, shape: tuple[int, ...]) -> None:
    x, gain, weight = numbers(*shape).requires_grad_(), numbers(5).requires_grad_(), numbers(3, 5)
    out = product(x, gain, weight)
    expected = formula(x, gain.expand(*shape[:-2], 5), weight)
    torch.testing.assert_close(out, expected)
    assert out.is_contiguous()
    for found, wanted in zip(gradients(out, x, gain), gradients(expected, x, gain), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("product", [modulated_linear, modulated_linear_by_matrix])
@pytest.mark.parametrize("shared", [False, True])
def test_a_stack_is_one_product(product: Product, shared: bool) -> None:
    x, gain = numbers(*(() if shared else (4,)), 6, 5).requires_grad_(), numbers(4, 5).requires_grad_()
    weight = numbers(3, 5)
    out = vmap(product, in_dims=(None if shared else 0, 0, None))(x, gain, weight)
    expected = formula(x.expand(4, 6, 5), gain, weight)
    torch.testing.assert_close(out, expected)
    for found, wanted in zip(gradients(out, x, gain), gradients(expected, x, gain), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("product", [modulated_linear, modulated_linear_by_matrix])
def test_weights_that_learn_get_their_gradient(product: Product) -> None:
    x, gain, weight = numbers(6, 5), numbers(5).requires_grad_(), numbers(3, 5).requires_grad_()
    found = gradients(product(x, gain, weight), gain, weight)
    wanted = gradients(formula(x, gain, weight), gain, weight)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("product", [modulated_linear, modulated_linear_by_matrix])
def test_weights_of_every_task(product: Product) -> None:
    x, gain, weight = numbers(4, 6, 5), numbers(4, 5).requires_grad_(), numbers(4, 3, 5).requires_grad_()
    out = vmap(product)(x, gain, weight)
    expected = torch.einsum("tri,ti,toi->tro", x, gain, weight)
    torch.testing.assert_close(out, expected)
    for found, wanted in zip(gradients(out, gain, weight), gradients(expected, gain, weight), strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_gain_for_every_row() -> None:
    x, gain, weight = numbers(6, 5), numbers(6, 5).requires_grad_(), numbers(3, 5)
    (found,) = gradients(modulated_linear(x, gain, weight), gain)
    (wanted,) = gradients((x * gain) @ weight.T, gain)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("product", "shape"),
    [
        (modulated_linear, (5,)),
        (modulated_linear, (6, 5)),
        (modulated_linear_by_matrix, (5,)),
        (modulated_linear_by_matrix, (1, 5)),
    ],
)
def test_nothing_is_written_into_the_arguments(product: Product, shape: tuple[int, ...]) -> None:
    x, gain, weight = numbers(6, 5), numbers(*shape), numbers(3, 5)
    before = x.clone(), gain.clone(), weight.clone()
    with torch.no_grad():
        torch.testing.assert_close(product(x, gain, weight), (x * gain) @ weight.T)
    for given, kept in zip((x, gain, weight), before, strict=True):
        assert torch.equal(given, kept)
