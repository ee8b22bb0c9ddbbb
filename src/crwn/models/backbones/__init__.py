"""Backbones: pretrained networks whose features are frozen, and the network that learns contexts on top of them.

`load_backbone("efficientnet-lite0")` makes one whose weights are inside an installed package, `ImageBackbone(module)`
makes one of any `nn.Module`. Both are called with images and return features `[..., features]`; they have a
`fingerprint` of all that determines the features, and no parameters. `text_backbone("wordllama")` is called with texts,
`TextModule(module, tokenizer, name=...)` makes one of any encoder of texts.
"""

from crwn.models.backbones.deep import DeepBackboneNet
from crwn.models.backbones.image import ImageBackbone
from crwn.models.backbones.names import load_backbone, register_backbone
from crwn.models.backbones.network import BackboneNet
from crwn.models.backbones.text import TextBackbone, register_text_backbone, text_backbone
from crwn.models.backbones.text_module import TextModule

__all__ = [
    "BackboneNet",
    "DeepBackboneNet",
    "ImageBackbone",
    "TextBackbone",
    "TextModule",
    "load_backbone",
    "register_backbone",
    "register_text_backbone",
    "text_backbone",
]
