"""Batch norm by rows of pixels is batch norm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, vmap

from crwn.layers import TaskBatchNorm2d, context_tensors
from crwn.layers.row_norm import batch_norm_by_rows, by_rows_pays

SHAPES = [(6, 10, 8, 8), (3, 20, 5, 7), (2, 3, 4, 1)]


def images(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3 + 2
    return x.to(dtype).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_equals_torch_s_in_float32(shape: tuple[int, ...]) -> None:
    ours, theirs = images(shape).requires_grad_(), images(shape).requires_grad_()
    weight = torch.randn(shape)
    statistics = [torch.zeros(shape[1]), torch.ones(shape[1]), torch.zeros(shape[1]), torch.ones(shape[1])]
    one = batch_norm_by_rows(ours, statistics[0], statistics[1], 0.1, 1e-5)
    other = F.batch_norm(theirs, statistics[2], statistics[3], None, None, True, 0.1, 1e-5)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    (one * weight).sum().backward()
    (other * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(statistics[:2], statistics[2:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_is_rounded_once(shape: tuple[int, ...]) -> None:
    """The images are bfloat16 numbers; everything between them and the result is float32."""
    x = images(shape, torch.bfloat16)
    found = batch_norm_by_rows(x, torch.zeros(shape[1]), torch.ones(shape[1]), 0.1, 1e-5)
    exact = F.batch_norm(x.double(), None, None, None, None, True, 0.1, 1e-5)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("alpha", [1.0, -0.3, 4.0, 1e-3, 0.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_factor_before_the_norm(shape: tuple[int, ...], alpha: float) -> None:
    """Outputs, statistics and gradients are those of `alpha * x`, computed in float64."""
    ours, theirs = images(shape).requires_grad_(), images(shape).double().requires_grad_()
    factor = torch.tensor(alpha).requires_grad_()
    exact = torch.tensor(alpha, dtype=torch.float64).requires_grad_()
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    mean, var = torch.zeros(shape[1]), torch.ones(shape[1])
    mean64, var64 = torch.zeros(shape[1], dtype=torch.float64), torch.ones(shape[1], dtype=torch.float64)
    one = batch_norm_by_rows(ours, mean, var, 0.1, 1e-5, factor)
    other = F.batch_norm(exact * theirs, mean64, var64, None, None, True, 0.1, 1e-5)
    torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close([mean.double(), var.double()], [mean64, var64], rtol=1e-5, atol=1e-5)
    (one * weight).sum().backward()
    (other * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4, check_dtype=False)
    torch.testing.assert_close(factor.grad, exact.grad, rtol=1e-3, atol=1e-12, check_dtype=False)


def test_a_large_level_leaves_the_variance() -> None:
    x = (torch.randn(8, 10, 8, 8) + 50).contiguous(memory_format=torch.channels_last)
    mean, var = torch.zeros(10), torch.ones(10)
    batch_norm_by_rows(x, mean, var, 1.0, 1e-5)
    torch.testing.assert_close(mean, x.mean((0, 2, 3)), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(var, x.var((0, 2, 3)), rtol=2e-3, atol=0.0)


def test_it_is_used_for_bfloat16_images_of_few_channels_while_training(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_rows_pays(torch.zeros(1, 10, 4, 4, dtype=torch.bfloat16))
    assert not by_rows_pays(torch.zeros(1, 10, 4, 4))  # float32 records stay what they are, to the last bit
    assert not by_rows_pays(torch.zeros(1, 16, 4, 4, dtype=torch.bfloat16))
    calls = []

    def counted(*arguments: object) -> Tensor:
        calls.append(arguments)
        return batch_norm_by_rows(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("crwn.layers.conv.batch_norm_by_rows", counted)
    norm, low = TaskBatchNorm2d(10), images((4, 10, 4, 4), torch.bfloat16)
    norm(low)
    assert len(calls) == 1
    norm(low.float())
    norm.eval()(low)
    assert len(calls) == 1


def test_a_stack_of_tasks_equals_one_by_one() -> None:
    norm = TaskBatchNorm2d(10)
    x = torch.stack([images((4, 10, 4, 4)), images((4, 10, 4, 4)) * 5]).bfloat16()
    stack = {name: torch.stack([value, value]) for name, value in context_tensors(norm).items()}
    together = vmap(lambda tensors, batch: functional_call(norm, tensors, (batch,)))(stack, x)
    for task in range(2):
        alone = {name: value.clone() for name, value in context_tensors(norm).items()}
        torch.testing.assert_close(together[task], functional_call(norm, alone, (x[task],)))
        for name, value in alone.items():
            torch.testing.assert_close(stack[name][task], value)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # of torch's own compiler
def test_compiled_it_is_the_same() -> None:
    torch._dynamo.reset()
    norm, other = TaskBatchNorm2d(10), TaskBatchNorm2d(10)
    one, two = images((4, 10, 4, 4), torch.bfloat16).requires_grad_(), images((4, 10, 4, 4), torch.bfloat16)
    two.requires_grad_()
    found, wanted = torch.compile(norm, backend="aot_eager", fullgraph=True)(one), other(two)
    torch.testing.assert_close(found, wanted)
    found.float().square().sum().backward()
    wanted.float().square().sum().backward()
    torch.testing.assert_close(one.grad, two.grad)
    torch.testing.assert_close(norm.running_var, other.running_var)
