"""The paper's networks, and what is needed to describe one, build it again and tell it from another."""

from crwn.models.description import MODELS, build, describe, fingerprint
from crwn.models.fc import NeuroModNet, best_structure
from crwn.models.flynet import FlyNet
from crwn.models.network import Network
from crwn.models.resnet import NeuroModResNet, ResNet18, resnet18

__all__ = [
    "MODELS",
    "FlyNet",
    "Network",
    "NeuroModNet",
    "NeuroModResNet",
    "ResNet18",
    "best_structure",
    "build",
    "describe",
    "fingerprint",
    "resnet18",
]
