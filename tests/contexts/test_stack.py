"""Stacks of contexts: rows by name and number, changed and removed, in every dtype."""

from __future__ import annotations

import pytest
import torch

from crwn.contexts import STORES, Context, ContextStack, Store
from crwn.errors import ContextError, TaskError
from small_contexts import MODEL, SHAPES, make


@pytest.mark.parametrize("store", STORES)
def test_stacking(store: Store) -> None:
    many = [make(f"task {i}", i, classes=(i,), number=i) for i in range(20)]
    stack = ContextStack(SHAPES, store=store, capacity=1)
    for i, context in enumerate(many):
        assert stack.append(context) == i
    expected = [Context.from_bytes(context.to_bytes(store)).tensors for context in many]
    assert stack.names == tuple(context.name for context in many)
    assert stack.index("task 7") == 7
    positions = stack.positions(["task 3", "task 19", "task 3"])
    gathered = stack.gather(positions)
    for key in SHAPES:
        assert gathered[key].dtype == torch.float32
        assert torch.equal(gathered[key], torch.stack([expected[i][key] for i in (3, 19, 3)]))
        assert torch.equal(stack.tensors[key], torch.stack([one[key] for one in expected]))
    stack.remove("task 3")
    stack.remove("task 18")
    assert len(stack) == 18
    assert "task 3" not in stack
    for i in (0, 4, 17, 19):
        row = stack.index(f"task {i}")
        assert stack.names[row] == f"task {i}"
        assert stack.classes(row) == (i,)
        assert stack.info(row) == {"number": i}
        assert all(torch.equal(tensor, expected[i][key]) for key, tensor in stack.row(row).items())
    changed = make("task 4", 99, classes=("new",))
    row = stack.replace(changed)
    assert stack.classes(row) == ("new",)
    assert torch.equal(
        stack.row(row)["norm.running_var"], Context.from_bytes(changed.to_bytes(store)).tensors["norm.running_var"]
    )


def test_stacks_refuse_what_does_not_fit() -> None:
    stack = ContextStack.from_contexts([make("left")])
    with pytest.raises(TaskError, match='"left" is in the stack already'):
        stack.append(make("left"))
    with pytest.raises(TaskError, match='"right" is not among the 1 stacked'):
        stack.index("right")
    with pytest.raises(ContextError, match="lacks"):
        stack.append(Context("other", {"v": torch.ones(3)}, (), MODEL))
    for row in (1, -1):
        with pytest.raises(ContextError, match=f"row {row} asked of a stack of 1"):
            stack.row(row)
        with pytest.raises(ContextError, match="asked of a stack of 1"):
            stack.gather(torch.tensor([0, row]))
    with pytest.raises(ContextError, match="at least one"):
        ContextStack.from_contexts([])
    assert stack.gather(torch.tensor([], dtype=torch.int64))["layers.0.v"].shape == (0, 6)


def test_int8_stacks_take_a_quarter_of_the_memory() -> None:
    many = [Context(f"t{i}", {"v": torch.randn(1000), "alpha": torch.tensor(1.0)}, (), MODEL) for i in range(10)]
    sizes = {store: ContextStack.from_contexts(many, store=store).bytes for store in STORES}
    assert sizes["int8"] < 0.26 * sizes["float32"]
    assert sizes["float16"] < 0.51 * sizes["float32"]
