"""Flower: many owners learn one task together, and rows stay with their owners.

`client.py` is what an owner runs, `federation.py` what the server runs, `sums.py` and `rounds.py` are its strategies:
the closed form needs one round of sums, training by batches averages contexts over several rounds. Importing this
package imports nothing of Flower; using a name of it does.
"""

import importlib
from typing import TYPE_CHECKING, Any

from crwn.errors import MissingExtraError

if TYPE_CHECKING:
    from crwn.integrations.flower.agreement import Agreement
    from crwn.integrations.flower.client import client_app
    from crwn.integrations.flower.federation import Federation
    from crwn.integrations.flower.rounds import Round, Watched
    from crwn.integrations.flower.sums import ExactSums

__all__ = ["Agreement", "ExactSums", "Federation", "Round", "Watched", "client_app"]

_HOME = {
    "Agreement": "agreement",
    "ExactSums": "sums",
    "Federation": "federation",
    "Round": "rounds",
    "Watched": "rounds",
    "client_app": "client",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise MissingExtraError("federated learning", "flower") from None
