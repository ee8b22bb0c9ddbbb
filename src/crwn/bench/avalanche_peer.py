"""One task through Avalanche's plain strategy: what its loop costs over ours, on the same network and batches."""

from __future__ import annotations

import copy
import time
import warnings
from typing import Any

import torch

from crwn.bench.measure import Figure, alternately, ratio
from crwn.bench.paper_style import BATCH
from crwn.integrations.torchvision_wheel import import_torchvision
from crwn.models import NeuroModNet
from crwn.scenarios import Scenario
from crwn.training.loop import train
from crwn.training.recipe import make_recipe
from crwn.training.task import PreparedTask


def measure(scenario: Scenario, width: int, *, rounds: int, quick: bool, seed: int) -> Figure | str:
    """Return the figure, or why there is none."""
    try:
        strategy_of = _avalanche()
    except ImportError as error:
        return f"no figure against Avalanche: it cannot be imported here ({error})"
    (features,) = scenario.input_shape
    task = scenario[0]
    count = BATCH * (4 if quick else 100)
    rows = task.train.select(torch.arange(min(count, len(task.train))))
    batches = -(-len(rows) // BATCH)
    model = NeuroModNet(features, (width, width), scenario.num_classes, seed=seed)
    fit = strategy_of(model, rows.inputs(slice(None)), rows.labels(slice(None)))
    ours = [PreparedTask(task.name, rows, task.classes)]

    def learn() -> float:
        began = time.perf_counter()
        train(model, ours, make_recipe(batches=batches), seed=seed)
        return (time.perf_counter() - began) / batches

    def theirs() -> float:
        began = time.perf_counter()
        fit()
        return (time.perf_counter() - began) / batches

    taken = alternately({"avalanche": theirs, "ours": learn}, rounds)
    return ratio(
        "training.loop_vs_avalanche",
        "seconds a batch of one task, dense: Avalanche's plain strategy over our loop, same network and batches",
        slower=taken["avalanche"],
        faster=taken["ours"],
        facts={"width": width, "batches_measured": batches, "rows": len(rows)},
    )


def _avalanche() -> Any:
    """Return (model, x, y) -> a function that learns all rows once with Avalanche's Naive strategy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_torchvision()
        from avalanche.benchmarks import benchmark_from_datasets, with_task_labels
        from avalanche.benchmarks.utils import DataAttribute, as_classification_dataset
        from avalanche.training.plugins import EvaluationPlugin
        from avalanche.training.supervised import Naive

    def make(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        data: Any = torch.utils.data.TensorDataset(x, y)
        data.targets = y.tolist()
        labels = DataAttribute([0] * len(y), "targets_task_labels", use_in_getitem=True)
        dataset = as_classification_dataset(data).update_data_attribute("targets_task_labels", labels)
        scenario = with_task_labels(benchmark_from_datasets(train=[dataset]))
        experience = next(iter(scenario.train_stream))

        def fit() -> None:
            own = copy.deepcopy(model)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about metrics that are not logged
                strategy = Naive(
                    model=own,
                    optimizer=torch.optim.RMSprop(own.parameters(), lr=0.01),
                    criterion=torch.nn.CrossEntropyLoss(),
                    train_mb_size=BATCH,
                    train_epochs=1,
                    evaluator=EvaluationPlugin(loggers=[]),
                )
            strategy.train(experience, num_workers=0)

        return fit

    return make
