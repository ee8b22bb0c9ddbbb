"""Make a scenario by name, or from a TOML file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from crwn.data import Progress, load
from crwn.data.progress import silent
from crwn.errors import ConfigError
from crwn.scenarios.custom import scenario_from_toml
from crwn.scenarios.permuted import permuted
from crwn.scenarios.rotated import rotated
from crwn.scenarios.scenario import Scenario
from crwn.scenarios.split import split

DIGITS_BUDGET = {"batches": 300}

SCENARIOS: dict[str, tuple[str, Callable[..., Scenario]]] = {
    "rotated-mnist": ("mnist", rotated),
    "permuted-mnist": ("mnist", permuted),
    "rotated-digits": ("digits", partial(rotated, budget=DIGITS_BUDGET)),
    "permuted-digits": ("digits", partial(permuted, budget=DIGITS_BUDGET)),
    "split-cifar100": ("cifar100", split),
    "split-mini-imagenet": ("mini_imagenet", split),
}


def make_scenario(
    scenario: str | Path, *, seed: int = 0, tasks: int | None = None, progress: Progress = silent
) -> Scenario:
    """Make the scenario of that name, or the one a TOML file describes; data that is not cached is fetched.

    Args:
        scenario: a name from `SCENARIOS`, or the path of a TOML file (see `crwn.scenarios.custom`).
        seed: draws permutations and the order of classes.
        tasks: number of tasks, from the first; None for all (100 for permuted scenarios).
    """
    name = str(scenario)
    if name in SCENARIOS:
        data, build = SCENARIOS[name]
        return build(load(data, progress=progress), seed=seed, tasks=tasks, name=name)
    if name.endswith(".toml"):
        return scenario_from_toml(Path(scenario), seed=seed, tasks=tasks, progress=progress)
    near = difflib.get_close_matches(name, SCENARIOS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"there is no scenario {name!r}{hint} (there are: {', '.join(SCENARIOS)}, or the path of a TOML file)"
    )
