"""The learner, the object most users hold: a model with the contexts of all its tasks, in memory or in a model folder.

Data are prepared, tasks fitted, rows predicted and tasks inferred here. May import: `training`, `contexts`, `data`,
`models`, `layers`, `errors`.
"""

from crwn.learner.learner import Learner

__all__ = ["Learner"]
