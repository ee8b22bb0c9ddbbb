"""Where independent work runs: in this process, in worker processes of this machine, or on Ray."""

from crwn.training.engines.local import LocalEngine
from crwn.training.engines.work import ENGINES, Engine, Training, Work, make_engine

__all__ = ["ENGINES", "Engine", "LocalEngine", "Training", "Work", "make_engine"]
