"""SupSup with known tasks: a frozen random network, and a learned mask over its weights for every task."""

from crwn.methods.supsup.superposed_masks import SuperposedMasks
from crwn.methods.supsup.supsup import SupSup, SupSupConv2d, SupSupLinear

__all__ = ["SuperposedMasks", "SupSup", "SupSupConv2d", "SupSupLinear"]
