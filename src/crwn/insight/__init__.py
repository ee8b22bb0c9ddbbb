"""Analysis of contexts: the atlas of tasks, tests against known structure, and pictures.

Reads contexts of learners and runs and changes none. May import: `experiments`, `methods`, `scenarios`, `learner`,
`training`, `contexts`, `data`, `models`, `layers`, `errors`.
"""

from crwn.insight.arrange import Map, Tree, cluster, groups, make_map
from crwn.insight.atlas import Atlas, make_atlas, summary, write_atlas
from crwn.insight.collection import Collection, collect, from_learner
from crwn.insight.drift import DriftRecorder
from crwn.insight.effect import effect_similarity
from crwn.insight.inputs import alphas, input_weights
from crwn.insight.meaning import Meaning, Structure, circular_correlation, known_structures, mantel
from crwn.insight.measures import nearest_tasks, similarity
from crwn.insight.turning import read_angles

__all__ = [
    "Atlas",
    "Collection",
    "DriftRecorder",
    "Map",
    "Meaning",
    "Structure",
    "Tree",
    "alphas",
    "circular_correlation",
    "cluster",
    "collect",
    "effect_similarity",
    "from_learner",
    "groups",
    "input_weights",
    "known_structures",
    "make_atlas",
    "make_map",
    "mantel",
    "nearest_tasks",
    "read_angles",
    "similarity",
    "summary",
    "write_atlas",
]
