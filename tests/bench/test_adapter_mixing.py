"""PEFT's adapters for the comparison: copies are as those that PEFT adds itself, and mixed batches as one by one."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch

from crwn.bench import adapter_peers as peers
from crwn.bench.adapter_mixing import mixing, peft_model
from crwn.bench.adapters import small_backbone

NAMES = ["a", "b", "c"]


def small() -> peers.Split:
    backbone = small_backbone()
    return peers.Split(backbone.module, peers.Tail(peers.last_convolution(backbone.module), 5))


def shapes(model: Any) -> list[dict[str, torch.Size]]:
    """The shapes of parameters and of buffers by name."""
    every = model.named_parameters(), model.named_buffers()
    return [{name: value.shape for name, value in some} for some in every]


@pytest.fixture(autouse=True)
def with_peft() -> None:
    if not peers.has_peft(lambda line: None):
        pytest.skip("PEFT is not installed")


@pytest.mark.parametrize("kind", peers.KINDS)
def test_copies_hold_what_peft_adds(kind: str) -> None:
    from peft import get_peft_model

    base = small()
    ours = peft_model(base, kind, NAMES, "tail.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs: Any = get_peft_model(copy.deepcopy(base), peers.config_of(kind, "tail."), adapter_name="a")
        for name in NAMES[1:]:
            theirs.add_adapter(name, peers.config_of(kind, "tail."))
    assert shapes(ours) == shapes(theirs)


@pytest.mark.parametrize("kind", peers.KINDS)
def test_a_mixed_batch_is_its_rows_one_by_one(kind: str) -> None:
    model = peft_model(small(), kind, NAMES, "tail.")
    with torch.no_grad():
        for number, (name, value) in enumerate(model.named_parameters()):
            if any(f".{adapter}" in name for adapter in NAMES):
                torch.manual_seed(number)
                value.add_(0.3 * torch.randn_like(value))
        x, tasks = torch.randn(4, 3, 16, 16), ["b", "a", "c", "b"]
        together = mixing(model, kind)(x, tasks)
        for row, task in enumerate(tasks):
            model.set_adapter(task)
            torch.testing.assert_close(together[row], model(x[row : row + 1])[0], rtol=1e-4, atol=1e-5)
        assert not torch.allclose(together[0], mixing(model, kind)(x, ["c", "a", "c", "b"])[0])
