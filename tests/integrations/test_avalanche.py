"""crwn inside the real Avalanche, and Avalanche's benchmarks inside crwn."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import crwn
from crwn.errors import MissingExtraError
from crwn.methods import make_method
from digit_rows import Data

# Avalanche and what it imports warn about their own use of each other.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def ours() -> Iterator[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = importlib.import_module("crwn.integrations.avalanche")
        except MissingExtraError as error:
            pytest.skip(f"Avalanche cannot be imported ({error}): run scripts/install-avalanche")
        yield found


def _benchmark(digits: Data, *, task_labels: bool, experiences: int = 5) -> Any:
    from avalanche.benchmarks import nc_benchmark
    from avalanche.benchmarks.utils import as_classification_dataset

    x, y = (torch.tensor(part) for part in digits)
    sets = []
    for at in (slice(0, 900), slice(900, 1200)):
        made: Any = TensorDataset(x[at], y[at])
        made.targets = y[at].tolist()
        sets.append(as_classification_dataset(made))
    return nc_benchmark(*sets, n_experiences=experiences, task_labels=task_labels, seed=0)


def _strategy(ours: ModuleType, *, outputs: int = 2, **settings: Any) -> Any:
    from avalanche.evaluation.metrics import accuracy_metrics, forgetting_metrics
    from avalanche.training.plugins import EvaluationPlugin

    metrics = EvaluationPlugin(accuracy_metrics(stream=True, experience=True), forgetting_metrics(stream=True))
    model = crwn.NeuroModNet(64, (128,), outputs, seed=0)
    return ours.CRWN(model, batches=40, evaluator=metrics, eval_mb_size=64, **settings)


def _stream(results: dict[str, Any], metric: str) -> float:
    return float(next(value for name, value in results.items() if name.startswith(metric)))


def test_task_labels_choose_the_context_and_nothing_is_forgotten(ours: ModuleType, digits: Data) -> None:
    benchmark = _benchmark(digits, task_labels=True)
    strategy = _strategy(ours)
    for experience in benchmark.train_stream:
        strategy.train(experience)
        results = strategy.eval(benchmark.test_stream[: experience.current_experience + 1])
    assert strategy.learner.tasks == [f"task-{i}" for i in range(5)]
    assert _stream(results, "Top1_Acc_Stream") > 0.9
    assert _stream(results, "StreamForgetting") == 0.0
    # Avalanche's accuracy of an experience is the learner's own.
    last = benchmark.test_stream[4]
    x, y, _ = ours.read(last.dataset)
    own = strategy.learner.score(x, y, task="task-4")
    found = next(value for name, value in results.items() if name.startswith("Top1_Acc_Exp") and "Exp004" in name)
    assert own == pytest.approx(found)


def test_without_labels_the_task_is_inferred(ours: ModuleType, digits: Data) -> None:
    benchmark = _benchmark(digits, task_labels=False, experiences=2)
    strategy = _strategy(ours, outputs=5, infer_task=True)
    strategy.train(benchmark.train_stream)
    assert strategy.learner.tasks == ["experience-0", "experience-1"]
    # Ten classes, five to a task: guessing the task wrong would leave less than a half.
    assert _stream(strategy.eval(benchmark.test_stream), "Top1_Acc_Stream") > 0.6


def test_benchmark_becomes_a_scenario_that_methods_learn(ours: ModuleType, digits: Data) -> None:
    benchmark = _benchmark(digits, task_labels=True)
    scenario = ours.scenario_from(benchmark, budget={"batches": 30})
    assert len(scenario) == 5
    assert scenario.input_shape == (64,)
    assert scenario.num_classes == 2
    assert [task.factors["task_label"] for task in scenario] == list(range(5))
    assert sorted(label for task in scenario for label in task.classes) == list(range(10))
    for task, experience in zip(scenario, benchmark.train_stream, strict=True):
        assert len(task.train) == len(experience.dataset)
        _, y, _ = ours.read(experience.dataset)
        np.testing.assert_array_equal(np.array(task.classes)[task.train.labels(slice(None))], y)
    method, _ = make_method("neuromodnet", scenario, size="256")
    method.learn([scenario[0]], method.recipe())
    right = method.logits(scenario[0], scenario[0].test).argmax(dim=1) == scenario[0].test.labels(slice(None))
    assert right.float().mean() > 0.9


def test_example_runs_in_a_process_of_its_own(ours: ModuleType) -> None:
    example = Path(__file__).parents[2] / "examples" / "avalanche_strategy.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    last = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert _stream(last, "Top1_Acc_Stream") > 0.9
    assert last["StreamForgetting/eval_phase/test_stream"] == 0.0
