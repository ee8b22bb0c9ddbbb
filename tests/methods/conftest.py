"""Small scenarios for the tests of methods."""

from __future__ import annotations

import pytest
import torch

from crwn.data.dataset import Rows
from crwn.methods import Counts, make_method
from crwn.scenarios import Scenario, Task, make_scenario
from reference_network import CLASSES, FEATURES, CountsOf, random_rows


@pytest.fixture
def small() -> Scenario:
    """Three tasks of random rows."""
    tasks = [Task(f"t{k}", random_rows(k), random_rows(100 + k), tuple(range(CLASSES))) for k in range(3)]
    return Scenario("small", tasks, seed=0, input_shape=(FEATURES,), budget={"batches": 1})


@pytest.fixture(scope="session")
def rotated_digits() -> Scenario:
    """Three rotations of the handwritten digits."""
    return make_scenario("rotated-digits", tasks=3)


@pytest.fixture
def mnist_shaped() -> Scenario:
    """Two tasks with MNIST's shapes and four rows: enough to size networks."""
    rows = Rows(torch.zeros(4, 784, dtype=torch.uint8), torch.tensor([0, 1, 2, 3]))
    tasks = [Task(f"t{k}", rows, rows, tuple(range(10))) for k in range(2)]
    return Scenario("mnist-shaped", tasks, seed=0, input_shape=(784,), budget={"batches": 1000})


@pytest.fixture
def stripes() -> Scenario:
    """Two tasks of noisy images: class 0 has horizontal stripes and class 1 vertical ones, or the other way round."""
    tasks = [Task(f"task-{k}", _striped(k), _striped(k + 10), ("0", "1")) for k in range(2)]
    return Scenario("stripes", tasks, seed=0, input_shape=(3, 16, 16), budget={"epochs": 250})


def _striped(task: int) -> Rows:
    y = torch.arange(48) % 2
    x = torch.randn(48, 3, 16, 16, generator=torch.Generator().manual_seed(task))
    pattern = torch.arange(16) % 4 // 2 * 4.0
    for row, label in enumerate(y):
        x[row] += pattern if (int(label) + task) % 2 else pattern[:, None]
    return Rows(x, y)


@pytest.fixture
def cifar_shaped() -> Scenario:
    """Two tasks of five classes with CIFAR's shape and 48 rows: enough to size networks."""
    rows = Rows(torch.zeros(48, 3, 32, 32, dtype=torch.uint8), torch.arange(48) % 5)
    tasks = [Task(f"t{k}", rows, rows, tuple(range(5))) for k in range(2)]
    return Scenario("cifar-shaped", tasks, seed=0, input_shape=(3, 32, 32), budget={"epochs": 250})


@pytest.fixture
def flat_counts(mnist_shaped: Scenario) -> CountsOf:
    """Counts of a method with 36 tasks of MNIST's shape."""

    def counts(name: str, size: str | None = None, **settings: str) -> Counts:
        return make_method(name, mnist_shaped, size=size, settings=settings)[0].counts(36)

    return counts


@pytest.fixture
def image_counts(cifar_shaped: Scenario) -> CountsOf:
    """Counts of a method with 20 tasks of CIFAR's shape."""

    def counts(name: str, **settings: str) -> Counts:
        return make_method(name, cifar_shaped, settings=settings)[0].counts(20)

    return counts
