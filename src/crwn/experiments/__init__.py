"""Experiments: runs, suites of runs, their metrics and records. Importing this room does not import torch."""

from crwn.experiments.config import RunConfig, make_config
from crwn.experiments.folder import RunFolder
from crwn.experiments.result import RunResult, summary
from crwn.experiments.run import OutOfTime, run, with_size
from crwn.experiments.watcher import Watcher

__all__ = ["OutOfTime", "RunConfig", "RunFolder", "RunResult", "Watcher", "make_config", "run", "summary", "with_size"]
