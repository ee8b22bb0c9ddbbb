"""Experiments: runs, suites of runs, plans, metrics and records.

A run is one method on one scenario with one seed, in one folder. Importing this room does not import torch.
May import: `methods`, `scenarios`, `learner`, `training`, `contexts`, `data`, `models`, `layers`, `errors`.
"""

from crwn.experiments.config import RunConfig, make_config
from crwn.experiments.folder import RunFolder
from crwn.experiments.progress import RunProgress
from crwn.experiments.result import RunResult, summary
from crwn.experiments.run import OutOfTime, run, with_size

Watcher = RunProgress  # name of earlier versions

__all__ = [
    "OutOfTime",
    "RunConfig",
    "RunFolder",
    "RunProgress",
    "RunResult",
    "Watcher",
    "make_config",
    "run",
    "summary",
    "with_size",
]
