"""Where independent work runs: here, or on Ray."""

from crwn.engine.local import LocalEngine
from crwn.engine.work import Engine, Work, make_engine

__all__ = ["Engine", "LocalEngine", "Work", "make_engine"]
