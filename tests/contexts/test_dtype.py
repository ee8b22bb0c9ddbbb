"""Contexts in fewer bits: close to what they were, exact where it matters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from context_strategies import contexts
from crwn.contexts import STORES, Context, ContextStack, Store
from crwn.contexts.checks import LARGEST
from crwn.errors import ContextError
from small_contexts import MODEL, make


@given(contexts, st.sampled_from(STORES))
def test_smaller_stores_stay_close(context: Context, store: Store) -> None:
    found = Context.from_bytes(context.to_bytes(store))
    for key, tensor in context.tensors.items():
        largest = float(tensor.abs().max())
        allowed = {"float32": 0.0, "float16": largest * 2**-11 + 1e-7, "int8": largest / 253 + 2e-36}[store]
        assert (found.tensors[key] - tensor).abs().max() <= allowed
    stack = ContextStack.from_contexts([context], store=store)
    for key, tensor in stack.row(0).items():
        assert torch.equal(tensor, found.tensors[key])  # a stack rounds as the file does


def test_int8_keeps_single_numbers_and_batch_norm_statistics_exact() -> None:
    context = make(seed=3)
    found = Context.from_bytes(context.to_bytes("int8"))
    for key in ("layers.0.alpha", "norm.running_mean", "norm.running_var"):
        assert torch.equal(found.tensors[key], context.tensors[key])
    assert not torch.equal(found.tensors["layers.0.v"], context.tensors["layers.0.v"])


@pytest.mark.parametrize("largest", [LARGEST, 1e-38, 1e-45, 0.0])
def test_int8_at_the_ends_of_the_range(largest: float) -> None:
    found = Context.from_bytes(Context("t", {"v": torch.tensor([largest, -largest])}, (), MODEL).to_bytes("int8"))
    assert torch.allclose(found.tensors["v"], torch.tensor([largest, -largest]), rtol=1e-2, atol=1e-35)


def test_sizes_of_the_stores() -> None:
    context = Context("t", {"v": torch.randn(8976), "alpha": torch.tensor(1.0)}, tuple(range(10)), MODEL)
    sizes = {store: len(context.to_bytes(store)) for store in STORES}
    assert context.params == context.numbers == 8977
    assert sizes["float32"] < 36_700
    assert sizes["float16"] < 18_800
    assert sizes["int8"] < 9_800


def test_float16_refuses_what_does_not_fit() -> None:
    context = Context("t", {"v": torch.tensor([1.0, 1e6])}, (), MODEL)
    with pytest.raises(ContextError, match='v holds 1e\\+06, too large for float16: use store="float32"'):
        context.to_bytes("float16")
