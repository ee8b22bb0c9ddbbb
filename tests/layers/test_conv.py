"""Modulated convolutions against the formula written out, stacked and row by row; per-task batch norm."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, vmap

from crwn.errors import ConfigError, DataError
from crwn.layers import context_names, context_tensors
from crwn.layers.conv import ModulatedConv2d, TaskBatchNorm2d, channels_last, convolve_and_normalize, use_exact_alpha


def written_out(layer: ModulatedConv2d, x: torch.Tensor) -> torch.Tensor:
    """The superposition form: the unfolded input times alpha * v, group by group, then one product with R."""
    assert isinstance(layer.padding, int)
    outputs = []
    for part, weight in zip(x.chunk(layer.groups, 1), layer.weight.chunk(layer.groups, 0), strict=True):
        columns = F.unfold(
            part, layer.weight.shape[2:], dilation=layer.dilation, padding=layer.padding, stride=layer.stride
        )
        outputs.append(weight.flatten(1) @ (columns * (layer.alpha * layer.v).reshape(-1, 1)))
    return torch.cat(outputs, 1)


@settings(max_examples=30)
@given(
    groups=st.sampled_from([1, 2, 4]),
    kernel=st.sampled_from([1, 3, (3, 2)]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_both_forms_of_the_modulation_agree(
    groups: int, kernel: int | tuple[int, int], stride: int, padding: int, dilation: int
) -> None:
    layer = ModulatedConv2d(
        4, 8, kernel, seed=1, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).double()
    with torch.no_grad():
        layer.alpha.fill_(1.7)
    x = torch.randn(3, 4, 9, 8, dtype=torch.float64)
    out = layer(x)
    torch.testing.assert_close(out.flatten(2), written_out(layer, x))
    assert layer.v.shape == (4 // groups, *layer.weight.shape[2:])


def test_frozen_weights_come_from_the_seed_with_variance_two_over_fan_in() -> None:
    one = ModulatedConv2d(32, 64, 3, seed=5, name="a")
    again = ModulatedConv2d(32, 64, 3, seed=5, name="a")
    other = ModulatedConv2d(32, 64, 3, seed=5, name="b")
    assert torch.equal(one.weight, again.weight)
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert one.weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.02)
    assert one.v.abs().max().item() <= 1 / math.sqrt(32 * 9)
    assert "weight" not in one.state_dict()


def test_gradients_reach_the_context_only() -> None:
    layer = ModulatedConv2d(2, 3, 3, seed=0)
    layer(torch.randn(2, 2, 5, 5)).square().sum().backward()
    assert {name for name, value in layer.named_parameters() if value.grad is not None} == {"v", "alpha"}


@pytest.mark.parametrize("modulation", ["local", "global"])
def test_half_of_the_modulation_alone(modulation: str) -> None:
    layer = ModulatedConv2d(2, 3, 3, seed=0, modulation=modulation)
    assert context_names(layer) == ["v" if modulation == "local" else "alpha"]


def test_wrong_groups_and_channels_are_named() -> None:
    with pytest.raises(ConfigError, match="10 and 20 channels cannot be divided into 3 groups"):
        ModulatedConv2d(10, 20, 3, seed=0, groups=3)
    with pytest.raises(DataError, match="images have 3 channels, this layer takes 2"):
        ModulatedConv2d(2, 3, 3, seed=0)(torch.zeros(1, 3, 5, 5))


@pytest.mark.parametrize("groups", [1, 2])
def test_stacked_and_row_by_row_equal_one_by_one(groups: int) -> None:
    layer = ModulatedConv2d(4, 6, 3, seed=0, groups=groups)
    contexts = {"v": torch.randn(5, *layer.v.shape), "alpha": torch.randn(5)}
    x = torch.randn(5, 7, 4, 6, 6)
    stacked = vmap(lambda context, batch: functional_call(layer, context, (batch,)))(contexts, x)
    rows = vmap(lambda context, row: functional_call(layer, context, (row[None],))[0])(contexts, x[:, 0])
    for task in range(5):
        alone = functional_call(layer, {name: value[task] for name, value in contexts.items()}, (x[task],))
        torch.testing.assert_close(stacked[task], alone, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(rows[task], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_is_torch_s_without_gain_and_bias(memory_format: torch.memory_format) -> None:
    ours, theirs = TaskBatchNorm2d(5), nn.BatchNorm2d(5, affine=False)
    for _ in range(3):
        x = (torch.randn(8, 5, 6, 6) * 3 + 2).contiguous(memory_format=memory_format)
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        torch.testing.assert_close(ours(one), theirs(other), rtol=1e-4, atol=1e-5)
        weight = torch.randn(8, 5, 6, 6)
        (ours(one) * weight).sum().backward()
        (theirs(other) * weight).sum().backward()
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x = torch.randn(2, 5, 6, 6)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-4, atol=1e-5)


def test_statistics_are_the_task_s_alone_and_stacked() -> None:
    norm = TaskBatchNorm2d(3)
    assert context_names(norm) == ["running_mean", "running_var"]
    x = torch.randn(2, 8, 3, 4, 4) * torch.tensor([1.0, 5.0]).view(2, 1, 1, 1, 1)
    stack = {name: torch.stack([value, value]) for name, value in context_tensors(norm).items()}
    vmap(lambda tensors, batch: functional_call(norm, tensors, (batch,)))(stack, x)
    for task in range(2):
        alone = {name: value.clone() for name, value in context_tensors(norm).items()}
        functional_call(norm, alone, (x[task],))
        for name, value in alone.items():
            torch.testing.assert_close(stack[name][task], value)
    assert torch.equal(norm.running_var, torch.ones(3))


def test_momentum_outside_its_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"momentum of batch norm must be over 0 and at most 1, got 0"):
        TaskBatchNorm2d(3, momentum=0)


def test_channels_last_changes_memory_not_values() -> None:
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(channels_last(x), x)
    assert channels_last(x).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(vmap(channels_last)(x[None]), x[None])


def alpha_gradient(precision: str, *, exact: bool = False, alpha: float = 0.7) -> float:
    """Of a sum of products with what comes out of a convolution and its norm, in a batch of 16 images."""
    conv, norm = ModulatedConv2d(10, 20, 3, seed=0, padding=1), TaskBatchNorm2d(20)
    x = channels_last(torch.randn(16, 10, 8, 8, generator=torch.Generator().manual_seed(0)))
    weight = torch.randn(16, 20, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        conv.alpha.fill_(alpha)
    if exact:
        use_exact_alpha(conv)
    if precision == "float64":
        conv, norm, x = conv.double(), norm.double(), x.double()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        out = convolve_and_normalize(conv, norm, x)
    (out.relu() * weight).sum().backward()
    gradient = conv.alpha.grad
    assert gradient is not None
    return float(gradient)


def test_the_exact_gradient_of_alpha_is_no_rounding() -> None:
    wanted = alpha_gradient("float64")
    assert alpha_gradient("float32", exact=True) == pytest.approx(wanted, rel=1e-3)
    assert alpha_gradient("bf16", exact=True) == pytest.approx(wanted, rel=0.3)
    assert alpha_gradient("float32") == pytest.approx(wanted, rel=0.1)
    assert abs(alpha_gradient("bf16")) > 10 * abs(wanted)


@pytest.mark.parametrize("modulation", ["both", "local"])
def test_a_convolution_with_its_norm_is_one_after_the_other(modulation: str) -> None:
    x = channels_last(torch.randn(4, 10, 8, 8, generator=torch.Generator().manual_seed(0)))
    weight = torch.randn(4, 20, 8, 8, generator=torch.Generator().manual_seed(1))
    found = []
    for together in (True, False):
        conv, norm = ModulatedConv2d(10, 20, 3, seed=0, padding=1, modulation=modulation), TaskBatchNorm2d(20)
        with torch.no_grad():
            conv.alpha.fill_(-2.0)
        if together:
            use_exact_alpha(conv)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = convolve_and_normalize(conv, norm, x)
        (out.relu() * weight).sum().backward()
        assert conv.v.grad is not None
        found.append((out, norm.running_mean, norm.running_var, conv.v.grad))
    torch.testing.assert_close(found[0][:3], found[1][:3], rtol=0.02, atol=0.02)
    assert torch.cosine_similarity(found[0][3].flatten(), found[1][3].flatten(), 0) > 0.99
