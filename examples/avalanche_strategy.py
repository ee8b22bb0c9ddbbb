"""crwn as a strategy in Avalanche: five tasks of two digits each, Avalanche's own loop, metrics and logger.

Run it with `python examples/avalanche_strategy.py` after `scripts/install-avalanche`.
"""

# First: it also imports a torchvision that was built for another torch, which Avalanche alone cannot.
from crwn.integrations.avalanche import CRWN  # isort: split

import torch
from avalanche.benchmarks import nc_benchmark
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.evaluation.metrics import accuracy_metrics, forgetting_metrics
from avalanche.logging import InteractiveLogger
from avalanche.training.plugins import EvaluationPlugin
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

import crwn

x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
train, test = TensorDataset(x[:1200].float(), y[:1200]), TensorDataset(x[1200:].float(), y[1200:])
for part in (train, test):
    part.targets = part.tensors[1].tolist()
benchmark = nc_benchmark(
    as_classification_dataset(train), as_classification_dataset(test), n_experiences=5, task_labels=True, seed=0
)

evaluator = EvaluationPlugin(
    accuracy_metrics(experience=True, stream=True), forgetting_metrics(stream=True), loggers=[InteractiveLogger()]
)
model = crwn.NeuroModNet(in_features=64, hidden=(256,), classes=2, seed=0)
strategy = CRWN(model, batches=60, evaluator=evaluator)
for experience in benchmark.train_stream:
    strategy.train(experience)
    results = strategy.eval(benchmark.test_stream)

print(strategy.learner.tasks)
print({name: round(value, 3) for name, value in results.items() if "Stream" in name})
