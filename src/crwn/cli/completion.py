"""What shells complete beside commands and options: names of tasks, scenarios and methods.

`crwn --install-completion` sets a shell up. Completing prints names and no errors: a folder that cannot be read has
none.
"""

from __future__ import annotations

from pathlib import Path

import typer

MOST = 200  # names offered at once


def task_names(context: typer.Context, incomplete: str) -> list[str]:
    """Tasks of the model folder that was typed before."""
    from crwn.errors import CRWNError
    from crwn.learner.folder import open_folder_bank

    # While the value of an option is typed, the words before it are in `args`.
    folder = context.params.get("model") or context.params.get("place") or next(iter(context.args), None)
    if folder is None:
        return []
    try:
        with open_folder_bank(Path(folder)) as bank:
            return bank.names(incomplete, limit=MOST)
    except (CRWNError, OSError):
        return []


def scenario_names(incomplete: str) -> list[str]:
    """Scenarios that have a name; TOML files are completed by the shell."""
    from crwn.scenarios.make import SCENARIOS

    return [name for name in SCENARIOS if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    """Methods that have a name."""
    from crwn.methods import make

    return [name for name in make.method_names() if name.startswith(incomplete)]
