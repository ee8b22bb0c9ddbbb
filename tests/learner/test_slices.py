"""Task inference takes the model for a bounded amount of work at a time, whatever the model and the group of rows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from crwn import Learner, NeuroModNet, neuromodulate
from crwn.data.dataset import Rows
from crwn.learner import slices, task_inference
from crwn.learner.slices import cost_of
from crwn.models import ImageFlyNet


def test_costs_are_the_multiplications_of_a_row() -> None:
    model = NeuroModNet(8, (16, 32), 4, seed=0, constant=False)
    assert cost_of(model, torch.zeros(8)) == (0, 8 * 16 + 16 * 32 + 32 * 4)
    convolution = neuromodulate(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 3)), seed=0).eval()
    assert cost_of(convolution, torch.zeros(1, 8, 8)) == (0, 36 * 9 * 4 + 144 * 3)
    images = ImageFlyNet((1, 12, 12), classes=2, seed=0, filters=16)
    shared, own = cost_of(images, torch.zeros(1, 12, 12))
    assert shared > own > 0


def test_rows_of_many_vectors_cost_all_of_them() -> None:
    """Also where the product of one row is large enough for another library."""
    tokens = neuromodulate(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)), seed=0).eval()
    shared, own = cost_of(tokens, torch.zeros(64, 256))
    assert shared + own == pytest.approx(64 * (256 * 256 + 256 * 4), rel=0.05)


@pytest.mark.parametrize("slice_of", [1, 2**12, 2**14, 2**40])
def test_slices_are_bounded_and_change_no_ranking(slice_of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 8)).astype("float32")
    learner = Learner(NeuroModNet(8, (16,), 2, seed=0, constant=False))
    for i in range(5):
        learner.learn(f"task {i}", x * (i + 1), x[:, i] > 0, batches=30, progress=False)
    cost = 8 * 16 + 16 * 2
    wanted = learner.infer_task(x[:20])
    monkeypatch.setattr(slices, "SLICE", slice_of)
    sizes: list[int] = []
    entropies = task_inference.task_entropies

    def counted(model: nn.Module, tensors: dict[str, torch.Tensor], rows: torch.Tensor, classes: list[int]) -> object:
        sizes.append(rows.shape[0] * rows.shape[1] * cost)
        return entropies(model, tensors, rows, classes)

    monkeypatch.setattr(task_inference, "task_entropies", counted)
    found = learner.infer_task(x[:20])
    assert sum(sizes) == 5 * 20 * cost
    assert max(sizes) <= max(slice_of, cost)
    assert [one.task for one in found] == [one.task for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-5)


def test_the_model_is_free_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 2**10)
    x = np.random.default_rng(0).normal(size=(30, 8)).astype("float32")
    learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
    learner.learn("sign", x, x[:, 0] > 0, batches=3, progress=False)
    entered: list[int] = []

    class Busy:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None: ...

    rows = Rows(torch.from_numpy(x))
    task_inference.rank_tasks(learner.model, learner.resident, ["sign"], rows, busy=Busy())
    assert len(entered) > 4


def test_the_first_inference_does_not_load_the_compiler() -> None:
    """It is loaded while the model is held, and takes seconds in which no prediction gets through."""
    code = """
import sys
import numpy as np
from crwn import Learner, NeuroModNet
x = np.random.default_rng(0).normal(size=(30, 8)).astype("float32")
learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
for name in "ab":
    learner.learn(name, x, x[:, 0] > 0, method="exact", progress=False)
print(learner.infer_task(x)[0].task in "ab", "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
