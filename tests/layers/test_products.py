"""Products by oneDNN: values, gradients and stacks of the plain formula, and when it is used."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp, vmap
from torch.utils.flop_counter import FlopCounterMode

from crwn.layers import products
from crwn.layers.functional import modulated_linear
from crwn.layers.products import product

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this build of torch has no oneDNN"
)


@pytest.fixture(autouse=True)
def _by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that oneDNN can take over, on any processor."""
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "LEAST_MULTIPLICATIONS", 1)
    monkeypatch.setattr(products, "LEAST_ROWS", 1)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the rows that oneDNN multiplied."""
    found: list[tuple[int, ...]] = []
    plain = products._ByOneDNN.forward

    def counted(x: Tensor, weight: Tensor) -> Tensor:
        found.append(tuple(x.shape))
        return plain(x, weight)

    counted.__signature__ = plain.__signature__  # type: ignore[attr-defined]
    monkeypatch.setattr(products._ByOneDNN, "forward", staticmethod(counted))
    return found


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (5,)])
def test_values_and_gradients(shape: tuple[int, ...], calls: list[tuple[int, ...]]) -> None:
    x, weight = numbers(*shape).requires_grad_(), numbers(4, 5).requires_grad_()
    out, expected = product(x, weight), F.linear(x, weight)
    torch.testing.assert_close(out, expected)
    back = numbers(*out.shape)
    found = torch.autograd.grad(out, (x, weight), back)
    for one, other in zip(found, torch.autograd.grad(expected, (x, weight), back), strict=True):
        torch.testing.assert_close(one, other)
    assert len(calls) == 3  # forward, and a gradient for each


def test_gradients_of_gradients() -> None:
    x, weight = numbers(6, 5).requires_grad_(), numbers(4, 5).requires_grad_()

    def second(multiply: object) -> Tensor:
        assert callable(multiply)
        (first,) = torch.autograd.grad(multiply(x, weight).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), weight)[0]

    torch.testing.assert_close(second(product), second(F.linear))


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, 1)])
def test_stacks(dims: tuple[int | None, int | None], calls: list[tuple[int, ...]]) -> None:
    x = numbers(6, 5) if dims[0] is None else numbers(*((3, 6, 5) if dims[0] == 0 else (6, 3, 5)))
    weight = numbers(4, 5) if dims[1] is None else numbers(*((3, 4, 5) if dims[1] == 0 else (4, 3, 5)))
    torch.testing.assert_close(vmap(product, in_dims=dims)(x, weight), vmap(F.linear, in_dims=dims)(x, weight))
    # Rows that share their weights are one product.
    assert len(calls) == (1 if dims[1] is None else 3)


def test_gradients_for_every_row_of_a_stack() -> None:
    x, weight = numbers(3, 6, 5), numbers(3, 4, 5)

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        return product(x, weight).square().sum()

    expected = vmap(grad(lambda weight, x: F.linear(x, weight).square().sum()))(weight, x)
    torch.testing.assert_close(vmap(grad(loss))(weight, x), expected)


def test_transposed_matrices(calls: list[tuple[int, ...]]) -> None:
    x, weight = numbers(5, 6).mT, numbers(5, 4).mT
    torch.testing.assert_close(product(x, weight), F.linear(x, weight))
    assert calls == [(6, 5)]


def test_what_onednn_does_not_take(calls: list[tuple[int, ...]]) -> None:
    product(numbers(6, 5).double(), numbers(4, 5).double())
    product(numbers(0, 5), numbers(4, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(numbers(6, 5), numbers(4, 5)).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        product(numbers(6, 5), numbers(4, 3))
    assert calls == []


def test_small_products_and_other_processors_use_blas(
    calls: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LEAST_MULTIPLICATIONS", 6 * 5 * 4 + 1)
    product(numbers(6, 5), numbers(4, 5))
    monkeypatch.setattr(products, "LEAST_MULTIPLICATIONS", 6 * 5 * 4)
    monkeypatch.setattr(products, "onednn_is_faster", lambda: False)
    product(numbers(6, 5), numbers(4, 5))
    assert calls == []


def test_the_same_product_has_the_same_bits() -> None:
    x, weight = numbers(300, 70), numbers(90, 70)
    assert torch.equal(product(x, weight), product(x.clone(), weight.clone()))


def test_outputs_may_be_changed_in_place() -> None:
    x, weight = numbers(6, 5).requires_grad_(), numbers(4, 5).requires_grad_()
    F.relu_(product(x, weight)).sum().backward()
    (expected,) = torch.autograd.grad(F.relu(F.linear(x, weight)).sum(), weight)
    torch.testing.assert_close(weight.grad, expected)


def test_gradients_of_gradients_of_a_modulated_product() -> None:
    x, gain, weight = numbers(6, 5), numbers(5).requires_grad_(), numbers(4, 5)
    (first,) = torch.autograd.grad(modulated_linear(x, gain, weight).square().sum(), gain, create_graph=True)
    (expected,) = torch.autograd.grad(F.linear(x * gain, weight).square().sum(), gain, create_graph=True)
    second, other = (torch.autograd.grad(one.square().sum(), gain)[0] for one in (first, expected))
    torch.testing.assert_close(second, other)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by torch itself
def test_forward_mode_derivatives() -> None:
    x, weight, towards = numbers(6, 5), numbers(4, 5), numbers(7, 5)[:6]
    for function, point, direction in (
        (lambda at: product(at, weight).square(), x, towards),
        (lambda at: product(x, at).square(), weight, numbers(4, 5) + 1),
        (lambda at: product(at, at).square(), weight, numbers(4, 5) + 1),
    ):
        found = jvp(function, (point,), (direction,))[1]
        expected = jvp(partial(_plain, function), (point,), (direction,))[1]
        torch.testing.assert_close(found, expected)


def _plain(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The function without oneDNN."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(products, "onednn_is_faster", lambda: False)
        return function(at)


def test_few_numbers_of_rows_reach_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps code for every shape."""
    counts: set[int] = set()
    monkeypatch.setattr(products, "_padded", lambda rows, plain=products._padded: counted(plain(rows), counts))
    weight = numbers(4, 5)
    for rows in range(1, 600):
        x = numbers(rows, 5)
        torch.testing.assert_close(product(x, weight), F.linear(x, weight))
    assert len(counts) <= 32


def counted(rows: Tensor, counts: set[int]) -> Tensor:
    counts.add(len(rows))
    return rows


def test_a_row_has_the_same_bits_in_batches_of_any_size() -> None:
    x, weight = numbers(600, 70), numbers(90, 70)
    whole = product(x, weight)
    for rows in (1, 16, 17, 100, 300, 511):
        assert torch.equal(product(x[:rows], weight), whole[:rows])


def test_modes_that_count_operations_see_a_plain_product(calls: list[tuple[int, ...]]) -> None:
    with FlopCounterMode(display=False) as counter:
        product(numbers(6, 5), numbers(4, 5))
    assert counter.get_total_flops() == 2 * 6 * 5 * 4
    assert calls == []


def test_export_with_any_number_of_rows() -> None:
    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return product(x, numbers(4, 5))

    exported = torch.export.export(
        Layer(), (numbers(6, 5),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1)}}
    )
    torch.testing.assert_close(exported.module()(numbers(40, 5)), F.linear(numbers(40, 5), numbers(4, 5)))
