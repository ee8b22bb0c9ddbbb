"""Which tensors are a context, and how parameters are counted."""

from torch import nn

import crwn.layers
from crwn.layers import ModulatedLinear, context_names, context_tensors, learned_parameters, parameters_table


def test_statistics_of_normalization_belong_to_the_task() -> None:
    model = nn.Sequential(ModulatedLinear(4, 3, seed=0), nn.BatchNorm1d(3, affine=False))
    assert context_names(model) == ["0.v", "0.alpha", "1.running_mean", "1.running_var"]
    assert learned_parameters(model) == 5
    tensors = context_tensors(model)
    assert all(not value.requires_grad for value in tensors.values())


def test_the_table_adds_up() -> None:
    model = nn.Sequential(ModulatedLinear(1000, 40, seed=0), nn.ReLU(), ModulatedLinear(40, 3, seed=0))
    lines = parameters_table(model).splitlines()
    assert lines[0].split() == ["layer", "kind", "frozen", "learned"]
    assert lines[-1].split() == ["total", "40,120", "1,042"]
    assert parameters_table(nn.Linear(2, 2)) == ""


def test_names_of_earlier_versions_still_work() -> None:
    assert crwn.layers.learned_numbers is learned_parameters
    assert crwn.layers.numbers_table is parameters_table
