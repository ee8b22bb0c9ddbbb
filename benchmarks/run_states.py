"""Checks that a run folder holds what the run learned: committed records under results/ do not."""

from __future__ import annotations

from pathlib import Path

from crwn.errors import ConfigError
from crwn.experiments import RunFolder


def require_states(run: Path) -> None:
    """Raise where a run folder is only a record.

    Raises:
        ConfigError: there is no run in the folder, or neither `state/` nor `bank.sqlite`; names the command that
            learns it again.
    """
    record = RunFolder(run).record()
    if record is None:
        raise ConfigError(f"{run} holds no run: give a run folder, like runs/SCENARIO/METHOD-SIZE/seed-0")
    if not any((run / "state").glob("*.safetensors")) and not (run / "bank.sqlite").exists():
        raise ConfigError(
            f"{run} is a record without what the run learned: learn it again with "
            f"`{record['command']} --out FOLDER` and give FOLDER/{run.name}"
        )
