"""Any `nn.Module`, neuromodulated; and the frozen values that have to be stored with it."""

from crwn.convert.kept import checksum, kept_weights, put_back
from crwn.convert.module import neuromodulate

__all__ = ["checksum", "kept_weights", "neuromodulate", "put_back"]
