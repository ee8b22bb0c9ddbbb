"""Layers whose weights are frozen and whose context, `v` and `alpha`, is all that a task learns.

Linear and convolutional layers, the products they compute, and in `weights/` the frozen weights made from a seed. May
import: `errors`.
"""

from crwn.layers.conv import ModulatedConv2d, TaskBatchNorm2d, channels_last
from crwn.layers.linear import ModulatedLinear
from crwn.layers.modulated import MODULATIONS, STARTS, Mergeable, Modulated
from crwn.layers.parameters import context_names, context_tensors, learned_parameters, parameters_table
from crwn.layers.products import product

# The names of earlier versions.
learned_numbers = learned_parameters
numbers_table = parameters_table

__all__ = [
    "MODULATIONS",
    "STARTS",
    "Mergeable",
    "Modulated",
    "ModulatedConv2d",
    "ModulatedLinear",
    "TaskBatchNorm2d",
    "channels_last",
    "context_names",
    "context_tensors",
    "learned_numbers",
    "learned_parameters",
    "numbers_table",
    "parameters_table",
    "product",
]
