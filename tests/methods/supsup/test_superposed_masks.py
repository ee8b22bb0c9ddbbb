"""SupSup's task inference, on masks made by hand and on learned ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crwn.errors import ModelError
from crwn.methods import SupSup, make_method
from crwn.methods.supsup import SuperposedMasks
from crwn.scenarios import Scenario, make_scenario


class TestSuperposedMasks:
    @pytest.fixture
    def superposed(self) -> SuperposedMasks:
        made = object.__new__(SuperposedMasks)
        made.names = ["left", "right", "nothing"]
        # One layer, three outputs: "left" keeps what reads pixel 0, "right" what reads pixel 1.
        made.weights = [torch.tensor([[4.0, 4.0], [-4.0, 4.0], [4.0, -4.0]])]
        left, right = torch.tensor([[1.0, 0.0]] * 3), torch.tensor([[0.0, 1.0]] * 3)
        made.masks = [torch.stack([left, right, torch.zeros(3, 2)])]
        return made

    def test_slopes_are_those_of_the_entropy(self, superposed: SuperposedMasks) -> None:
        x, shares = torch.tensor([[0.7, 0.2]]), torch.tensor([0.5, 0.3, 0.2])

        def entropy(shares: Tensor) -> Tensor:
            weight = superposed.weights[0] * torch.einsum("k,koi->oi", shares, superposed.masks[0])
            p = (x @ weight.T).softmax(dim=-1)
            return -(p * p.log()).sum()

        asked = shares.clone().requires_grad_()
        (expected,) = torch.autograd.grad(entropy(asked), asked)
        torch.testing.assert_close(superposed.slopes(x, shares), expected)

    @pytest.mark.parametrize(("x", "task"), [([1.0, 0.0], "left"), ([0.0, 1.0], "right")])
    def test_both_ways_find_the_mask_that_reads_the_rows(
        self, superposed: SuperposedMasks, x: list[float], task: str
    ) -> None:
        rows = torch.tensor([x])
        assert superposed.one_shot(rows) == task
        assert superposed.binary(rows) == task


def test_learned_masks_infer_their_task() -> None:
    scenario = make_scenario("permuted-digits", tasks=3)
    method, _ = make_method("supsup", scenario)
    assert isinstance(method, SupSup)
    method.learn(list(scenario), method.recipe(batches=100, rate=0.01))
    masks = SuperposedMasks(method, list(scenario))
    for task in scenario:
        x = task.test.inputs(slice(0, 64))
        assert (masks.one_shot(x), masks.binary(x)) == (task.name, task.name)


def test_masks_of_convolutions_or_of_no_task_are_an_error(small: Scenario, stripes: Scenario) -> None:
    for scenario, tasks in ((small, []), (stripes, list(stripes))):
        method, _ = make_method("supsup", scenario)
        assert isinstance(method, SupSup)
        with pytest.raises(ModelError, match="fully connected SupSup network and at least one learned task"):
            SuperposedMasks(method, tasks)
