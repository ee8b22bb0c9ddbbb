"""Data sets: where they come from, and the cache that keeps them."""

from crwn.data.image_set import ImageSet
from crwn.data.progress import Progress, progress_bar
from crwn.data.sources import available, fetch, load

__all__ = ["ImageSet", "Progress", "available", "fetch", "load", "progress_bar"]
