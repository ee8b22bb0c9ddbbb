"""Dense layers, all of whose weights are learned: those of STL, MTL, fine-tuning, EWC and replay."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from crwn.methods.initial_weights import kaiming_normal
from crwn.methods.networks import KernelConv2d, baseline_network
from crwn.scenarios import Scenario


class DenseLinear(nn.Module):
    """`y = W x`.

    Frozen: nothing. Learned: W, which starts as `N(0, 2 / in)`.
    """

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(kaiming_normal((out_features, in_features), seed=seed, name=f"dense:{name}"))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class DenseConv2d(KernelConv2d):
    """`y = W conv x`.

    Frozen: nothing. Learned: W, which starts as `N(0, 2 / fan_in)`.
    """

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        self.weight = nn.Parameter(kaiming_normal(shape, seed=seed, name=f"dense:{name}"))

    def kernel(self) -> Tensor:
        return self.weight


def dense_network(scenario: Scenario, size: str, *, seed: int, method: str) -> nn.Module:
    """The ordinary network, all of whose weights (and batch norm's gains and biases) are learned."""
    return baseline_network(scenario, size, DenseLinear, DenseConv2d, seed=seed, method=method, affine=True)
