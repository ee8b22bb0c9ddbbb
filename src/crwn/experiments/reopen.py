"""A run that was done, opened again: its scenario and its method, and what the method had learned."""

from __future__ import annotations

import shlex
from pathlib import Path

from crwn.errors import ConfigError
from crwn.experiments.config import make_config
from crwn.experiments.experiment import Experiment, build
from crwn.experiments.folder import RunFolder


def reopen(folder: Path) -> Experiment:
    """The scenario and the method of a run as config.json has them; the method has learned nothing.

    Raises:
        ConfigError: there is no run, or the file its scenario came from is gone or has changed.
    """
    record = RunFolder(folder).record()
    if record is None:
        raise ConfigError(f"{folder} holds no run: give a model folder or a run folder")
    fields = {key: value for key, value in record["run"].items() if key != "scenario_sha256"}
    if "scenario_sha256" in record["run"]:
        fields["scenario"] = shlex.split(record["command"])[2]
        if not Path(fields["scenario"]).is_file():
            raise ConfigError(f"the run in {folder} is of {fields['scenario']}, not to be found from here")
    config = make_config(**fields)
    if config.identity().get("scenario_sha256") != record["run"].get("scenario_sha256"):
        raise ConfigError(f"{fields['scenario']} has changed since the run in {folder}: its tasks may be others now")
    return build(config)


def relearned(folder: Path, *, tasks: int | None = None) -> Experiment:
    """The same with what the run learned, from its `state/`.

    Args:
        tasks: only this many, the first ones; the others' states are not read.

    Raises:
        ConfigError: as for `reopen`, or a state is missing or damaged.
    """
    experiment, files = reopen(folder), RunFolder(folder)
    lines = files.lines()[: len(experiment.scenario)]
    states = files.states.task_states(lines, [task.name for task in experiment.scenario], tasks=tasks)
    experiment.method.restore(states, files.states.shared_state(lines))
    return experiment
