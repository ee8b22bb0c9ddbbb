"""Scenarios by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

from crwn.data import Progress, load
from crwn.data.progress import silent
from crwn.errors import ConfigError
from crwn.scenarios.permuted import permuted
from crwn.scenarios.rotated import rotated
from crwn.scenarios.scenario import Scenario

DIGITS_BUDGET = {"batches": 300}

SCENARIOS: dict[str, tuple[str, Callable[..., Scenario]]] = {
    "rotated-mnist": ("mnist", rotated),
    "permuted-mnist": ("mnist", permuted),
    "rotated-digits": ("digits", partial(rotated, budget=DIGITS_BUDGET)),
    "permuted-digits": ("digits", partial(permuted, budget=DIGITS_BUDGET)),
}


def make_scenario(scenario: str, *, seed: int = 0, tasks: int | None = None, progress: Progress = silent) -> Scenario:
    """The scenario of that name; its data is fetched when it is not there."""
    if scenario in SCENARIOS:
        data, build = SCENARIOS[scenario]
        return build(load(data, progress=progress), seed=seed, tasks=tasks, name=scenario)
    near = difflib.get_close_matches(scenario, SCENARIOS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"there is no scenario {scenario!r}{hint} (there are: {', '.join(SCENARIOS)}, or the path of a TOML file)"
    )
