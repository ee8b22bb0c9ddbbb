"""Methods: ways to learn the tasks of a scenario, each in one file or folder with its layers.

A method is a subclass of `Method` (`method.py`), and of `Independent` or `OneNetwork` where tasks share nothing that is
trained or train the same weights. `supsup/supsup.py`, `batche.py` and `psp.py` have the same parts in the same order: a
linear layer, a convolution, the method; the dense layers of the other baselines are in `dense.py`. `networks.py` builds
the baselines' networks from such layers, `sizes.py` checks sizes, `initial_weights.py` draws initial tensors,
`published.py` has the paper's recipes, `make.py` finds methods by name.

May import: `scenarios`, `learner`, `training`, `contexts`, `data`, `models`, `layers`, `errors`.
"""

from crwn.methods.batche import BatchE
from crwn.methods.ewc import EWC
from crwn.methods.finetune import Finetune
from crwn.methods.flynet import FlyNetMethod
from crwn.methods.independent import Independent
from crwn.methods.make import ENTRY_POINTS, METHODS, find_method, make_method, method_names
from crwn.methods.method import Counts, Method, Options
from crwn.methods.mtl import MTL
from crwn.methods.neuromodnet import NeuroModNetMethod
from crwn.methods.one_network import OneNetwork
from crwn.methods.psp import PSP
from crwn.methods.published import published_recipe
from crwn.methods.replay import Replay
from crwn.methods.stl import STL
from crwn.methods.supsup import SupSup

__all__ = [
    "BatchE",
    "Counts",
    "ENTRY_POINTS",
    "EWC",
    "Finetune",
    "FlyNetMethod",
    "Independent",
    "METHODS",
    "MTL",
    "Method",
    "NeuroModNetMethod",
    "OneNetwork",
    "Options",
    "PSP",
    "Replay",
    "STL",
    "SupSup",
    "find_method",
    "make_method",
    "method_names",
    "published_recipe",
]
