import pytest
import torch

from crwn.data import load
from crwn.errors import ConfigError
from crwn.scenarios import permuted, rotated
from crwn.scenarios.pixel_map import PixelMap


def test_each_task_is_a_permutation_of_its_own() -> None:
    digits = load("digits")
    scenario = permuted(digits)
    assert len(scenario) == 100
    assert scenario[3].name == "permute-003"
    assert dict(scenario[3].factors) == {"permutation": 3}
    upright = rotated(digits, tasks=1)[0].test.inputs(slice(0, 20))
    seen = set()
    for task in scenario[:10]:
        inputs = task.test.inputs(slice(0, 20))
        assert torch.allclose(inputs.sort(dim=1).values, upright.sort(dim=1).values)
        assert not torch.equal(inputs, upright)
        seen.add(tuple(inputs[0].tolist()))
    assert len(seen) == 10


def test_a_permutation_depends_on_seed_and_number_alone() -> None:
    digits = load("digits")
    few, many, other = permuted(digits, tasks=2), permuted(digits, tasks=9), permuted(digits, tasks=2, seed=1)
    rows = slice(0, 20)
    assert torch.equal(few[1].train.inputs(rows), many[1].train.inputs(rows))
    assert not torch.equal(few[1].train.inputs(rows), other[1].train.inputs(rows))


def test_permutations_stay_the_same_from_release_to_release() -> None:
    prepare = permuted(load("digits"), tasks=1)[0].train.prepare
    assert isinstance(prepare, PixelMap)
    assert prepare.pixels is not None
    assert prepare.pixels[:8].tolist() == [51, 21, 5, 10, 25, 48, 26, 40]


def test_no_tasks_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"cannot have 0 tasks: it has at least 1"):
        permuted(load("digits"), tasks=0)
