"""Scenarios: sequences of tasks, made from a dataset by rotating, permuting or splitting, or from a TOML file.

Nothing is trained here. May import: `learner`, `training`, `contexts`, `data`, `models`, `layers`, `errors`.
"""

from crwn.scenarios.make import SCENARIOS, make_scenario
from crwn.scenarios.permuted import permuted
from crwn.scenarios.pixel_map import PixelMap
from crwn.scenarios.rotated import rotated
from crwn.scenarios.scenario import Scenario, Task
from crwn.scenarios.split import split

__all__ = ["SCENARIOS", "PixelMap", "Scenario", "Task", "make_scenario", "permuted", "rotated", "split"]
