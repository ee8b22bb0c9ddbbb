"""Optimizers: the same steps as torch's own, without its compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from crwn.training.optimizers import make_optimizer, without_compiler
from crwn.training.recipe import Recipe


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.SGD])
def test_steps_are_those_of_torch(kind: type[torch.optim.Optimizer]) -> None:
    start = torch.randn(40, generator=torch.Generator().manual_seed(0))
    found = []
    for made in (kind, without_compiler(kind)):
        values = start.clone().requires_grad_()
        optimizer = made([values], lr=0.1, weight_decay=0.01)  # type: ignore[call-arg]
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            (values**2 - values).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        found.append(values.detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], start)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd"])
def test_a_recipe_names_its_optimizer(name: str) -> None:
    recipe = Recipe.model_validate({"optimizer": name, "rate": 0.1})
    optimizer = make_optimizer(recipe, [torch.ones(3, requires_grad=True)])
    assert type(optimizer).__name__.lower() == name
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_learning_does_not_import_the_compiler() -> None:
    program = (
        "import sys, numpy as np, crwn;"
        "model = crwn.NeuroModNet(in_features=4, hidden=(8,), classes=2, seed=0);"
        "x = np.random.default_rng(0).standard_normal((40, 4), np.float32);"
        "crwn.Learner(model).learn('a', x, x[:, 0] > 0, batches=3, progress=False);"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
