import subprocess
import sys

import numpy as np
import pytest
import torch

from crwn.data import ImageSet, load
from crwn.errors import ConfigError
from crwn.scenarios import rotated


def test_thirty_six_rotations_share_one_copy(mnist: ImageSet) -> None:
    scenario = rotated(mnist)
    assert len(scenario) == 36
    assert [task.name for task in scenario[:3]] == ["rotate-000", "rotate-010", "rotate-020"]
    assert [task.factors["angle"] for task in scenario] == [10.0 * k for k in range(36)]
    assert len({task.train.x.data_ptr() for task in scenario}) == 1
    assert scenario.input_shape == (784,)
    assert scenario.num_classes == 10
    batch = scenario[5].train.inputs(torch.arange(128))
    assert batch.shape == (128, 784)
    assert batch.dtype == torch.float32


def test_thirty_six_rotations_fit_into_400_megabytes(mnist: ImageSet) -> None:
    pytest.importorskip("resource")
    script = """
import resource, torch
from crwn.scenarios import make_scenario
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scenario = make_scenario("rotated-mnist")
order = torch.randperm(60_000)
for task in scenario:
    for start in range(0, 60_000, 10_000):
        task.train.inputs(order[start : start + 128])
    for batch in task.test.batches(1000):
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 150e6


def test_a_full_turn_in_other_steps() -> None:
    digits = load("digits")
    assert [task.name for task in rotated(digits, step=90)] == ["rotate-000", "rotate-090", "rotate-180", "rotate-270"]
    assert len(rotated(digits, step=22.5)) == 16
    assert [task.factors["angle"] for task in rotated(digits, step=100)] == [0.0, 100.0, 200.0, 300.0]
    assert rotated(digits, step=22.5)[1].name == "rotate-022.500"
    half = rotated(digits, step=180)[1].test.inputs(slice(0, 4)).reshape(4, 8, 8)
    upright = rotated(digits)[0].test.inputs(slice(0, 4)).reshape(4, 8, 8)
    assert torch.equal(half, upright.flip(1, 2))


def test_plain_rows_cannot_be_rotated() -> None:
    rows = torch.from_numpy(np.ones((4, 6), dtype=np.float32))
    y = torch.tensor([0, 1, 0, 1])
    table = ImageSet("table", (0, 1), (6,), rows, y, rows, y, (0.0,), (1.0,))
    with pytest.raises(ConfigError, match=r"needs images, but 'table' has plain rows of 6 values"):
        rotated(table)


@pytest.mark.parametrize("tasks", [0, -1, 37])
def test_numbers_of_tasks_that_cannot_be(tasks: int) -> None:
    with pytest.raises(ConfigError, match=rf"cannot have {tasks} tasks: it has 1 to 36"):
        rotated(load("digits"), tasks=tasks)
