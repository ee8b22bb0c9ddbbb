"""What a network is and can do, asked in one way of crwn's own networks and of any other module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from crwn import FlyNet, NeuroModNet, NeuroModResNet
from crwn.layers import context_tensors
from crwn.models import Network, build, describe, fingerprint, network_of
from crwn.models.convert import neuromodulate


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


OWN = [
    NeuroModNet(6, (8,), 3, seed=0),
    FlyNet(6, 30, 3, seed=0, inputs_per_node=2),
    NeuroModResNet(2, 3, seed=0, input_shape=(3, 8, 8)),
]


@pytest.mark.parametrize("model", OWN, ids=lambda model: model.kind)
def test_networks_of_crwn_declare_what_they_are(model: Network) -> None:
    network = network_of(model)
    assert network is model
    assert (network.classes, network.input_shape) == (3, (3, 8, 8) if model is OWN[2] else (6,))
    assert (network.pure, network.rebuildable, network.merges_completely) == (True, True, True)
    assert network.rowwise is (model is not OWN[2])
    assert network.record == describe(model) == {"kind": model.kind, "config": model.config}
    assert fingerprint(build(network.record)) == fingerprint(model)


def test_normalized_hidden_rows_are_declared() -> None:
    assert network_of(NeuroModNet(6, (8,), 3, seed=0, norm="layer")).normalized
    assert not network_of(NeuroModNet(6, (8,), 3, seed=0)).normalized


@pytest.mark.parametrize("model", [plain(), neuromodulate(plain(), seed=0)], ids=["plain", "converted"])
def test_nothing_is_assumed_of_other_modules(model: Any) -> None:
    network = network_of(model)
    assert (network.kind, dict(network.config)) == ("Sequential", {})
    assert (network.classes, network.input_shape, network.suggested_rate) == (None, None, 0.1)
    assert not any((network.pure, network.rebuildable, network.merges_completely, network.rowwise))


def test_the_author_of_a_module_can_set_what_is_not_known() -> None:
    module: Any = plain()
    module.classes, module.input_shape, module.suggested_rate = 3, (6,), 0.02
    network = network_of(module)
    assert (network.classes, network.input_shape, network.suggested_rate) == (3, (6,), 0.02)


def test_the_record_of_a_converted_module_is_its_description() -> None:
    module: Any = neuromodulate(plain(), seed=0)
    assert network_of(module).record == {"kind": "own", "config": module.crwn_description}
    assert network_of(plain()).record == {"kind": "own", "config": {"class": "Sequential"}}


@pytest.mark.parametrize("model", [*OWN, neuromodulate(plain(), seed=0)], ids=lambda model: type(model).__name__)
def test_the_caller_computes_with_the_given_context(model: Any) -> None:
    model = model.eval()
    shape = network_of(model).input_shape or (6,)
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    own = context_tensors(model)
    context = {name: value + 0.5 for name, value in own.items()}
    call = network_of(model).caller()
    with torch.no_grad():
        expected = torch.func.functional_call(model, context, (x,))
        torch.testing.assert_close(call(context, x), expected)
        assert not torch.allclose(call({}, x), expected)
        torch.testing.assert_close(call({}, x), model(x))


def test_tensors_that_layers_share_are_replaced_in_both() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    weight, x = torch.randn(4, 4), torch.randn(2, 4)
    found = network_of(Tied()).caller()({"one.weight": weight}, x)
    torch.testing.assert_close(found, x @ weight.T @ weight.T)
