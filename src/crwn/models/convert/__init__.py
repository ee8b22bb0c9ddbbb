"""Conversion of any `nn.Module` (`neuromodulate`), and the frozen values that have to be stored with it."""

from crwn.models.convert.kept import checksum, kept_weights, load_kept_weights
from crwn.models.convert.module import neuromodulate

__all__ = ["checksum", "kept_weights", "load_kept_weights", "neuromodulate"]
