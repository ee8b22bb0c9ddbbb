"""The paper's networks, and what is needed to describe one, build it again and tell it from another."""

from crwn.models.description import MODELS, build, describe, fingerprint
from crwn.models.fc import NeuroModNet
from crwn.models.flynet import FlyNet
from crwn.models.network import Network

__all__ = ["MODELS", "FlyNet", "Network", "NeuroModNet", "build", "describe", "fingerprint"]
