"""Flower: many owners learn one task together, and rows stay with their owners.

`client.py` is what an owner runs, `federation.py` what the server runs, `sums.py` and `rounds.py` are its strategies:
the closed form needs one round of sums, training by batches averages contexts over several rounds.
"""

from crwn.errors import MissingExtraError

try:
    import flwr  # noqa: F401
except ImportError:
    raise MissingExtraError("federated learning", "flower") from None

from crwn.integrations.flower.agreement import Agreement
from crwn.integrations.flower.client import client_app
from crwn.integrations.flower.federation import Federation
from crwn.integrations.flower.rounds import Round, Watched
from crwn.integrations.flower.sums import ExactSums

__all__ = ["Agreement", "ExactSums", "Federation", "Round", "Watched", "client_app"]
