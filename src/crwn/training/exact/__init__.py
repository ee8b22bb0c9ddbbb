"""Contexts in closed form: the output layer is linear in its context, so squared error has one exact solution.

`statistics.py` holds sums over a task's rows, `accumulate.py` computes them, `solve.py` turns them into a context,
`newton.py` continues to the minimum of cross-entropy. May import what `training` may.
"""

from crwn.training.exact.learn import ExactSettings, learn_exact
from crwn.training.exact.output_layer import OutputLayer, output_layer
from crwn.training.exact.solve import Solution, solve
from crwn.training.exact.statistics import Statistics

__all__ = ["ExactSettings", "OutputLayer", "Solution", "Statistics", "learn_exact", "output_layer", "solve"]
