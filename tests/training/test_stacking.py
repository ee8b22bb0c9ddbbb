"""How many tasks are learned at once depends on sizes alone."""

import pytest
from torch import nn

from crwn import FlyNet, NeuroModNet
from crwn.training.stacking import model_stack_size, stack_size, stacks


def test_between_one_and_sixteen() -> None:
    assert [stack_size(width) for width in (1, 256, 1024, 2048, 4096, 10**7)] == [16, 16, 16, 8, 4, 1]
    assert stack_size(4096, batch_size=1024) == 1
    assert stack_size(4096, batch_size=1) == 16


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (NeuroModNet(64, (256, 256), 10, seed=0), 16),
        (NeuroModNet(64, (4096,), 10, seed=0, weights="hadamard"), 4),
        (FlyNet(64, 7840, 10, seed=0), 2),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)), 1),
        (nn.ReLU(), 1),
    ],
)
def test_the_widest_layer_decides_and_convolutions_are_not_stacked(model: nn.Module, size: int) -> None:
    assert model_stack_size(model) == size


def test_stacks_hold_what_is_alike() -> None:
    assert stacks([0, 1, 0, 0, 1, 0, 2], 3) == [[0, 2], [3, 5], [1, 4], [6]]
    assert stacks([], 3) == []


def test_stacks_in_order_never_skip_a_task() -> None:
    assert stacks([0, 0, 0, 1, 0, 0], 2, in_order=True) == [[0, 1], [2], [3], [4, 5]]
    assert stacks([0] * 5, 3, in_order=True) == [[0, 1, 2], [3, 4]], "of exactly this size, the last one smaller"
    assert stacks([0] * 5, 4) == [[0, 1, 2], [3, 4]], "evenly large"
