"""Methods: ways to learn the tasks of a scenario, one file each."""

from crwn.methods.finetune import Finetune
from crwn.methods.flynet import FlyNetMethod
from crwn.methods.make import ENTRY_POINTS, METHODS, find_method, make_method, method_names
from crwn.methods.method import Counts, Method, Options
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.methods.stl import STL

__all__ = [
    "ENTRY_POINTS",
    "METHODS",
    "Counts",
    "Finetune",
    "FlyNetMethod",
    "Method",
    "NeuroModNetMethod",
    "Options",
    "STL",
    "find_method",
    "make_method",
    "method_names",
]
