"""Models: the paper's networks, calling them with given tensors, merging a context into one; `convert/` for any module.

A model is an ordinary `nn.Module`; its context is what `layers.context_names` lists, and `network_of(model)` returns
what it can do. May import: `layers`, `errors`.
"""

from crwn.models.backbones import BackboneNet, DeepBackboneNet, ImageBackbone, load_backbone
from crwn.models.custom import CustomModule, network_of
from crwn.models.encoded import EncodedNetwork
from crwn.models.flynet import FlyNet
from crwn.models.image_flynet import ImageFlyNet
from crwn.models.network import Capabilities, Network
from crwn.models.neuromodnet import NeuroModNet, best_structure
from crwn.models.registry import MODELS, build, describe, fingerprint
from crwn.models.resnet import NeuroModResNet, ResNet18, resnet18
from crwn.models.whitened_resnet import WhitenedResNet

__all__ = [
    "MODELS",
    "BackboneNet",
    "DeepBackboneNet",
    "Capabilities",
    "CustomModule",
    "EncodedNetwork",
    "FlyNet",
    "ImageBackbone",
    "ImageFlyNet",
    "Network",
    "NeuroModNet",
    "NeuroModResNet",
    "ResNet18",
    "WhitenedResNet",
    "best_structure",
    "build",
    "describe",
    "fingerprint",
    "load_backbone",
    "network_of",
    "resnet18",
]
