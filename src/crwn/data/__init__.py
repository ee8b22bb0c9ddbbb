"""Data: datasets and their cache, readers for the user's files, and rows converted to model inputs.

`sources/` has one file per known dataset. May import: `models`, `layers`, `errors`.
"""

from crwn.data.columns import in_order
from crwn.data.custom import read_image_set
from crwn.data.files import read_labelled, read_table
from crwn.data.image_set import ImageSet
from crwn.data.progress import Progress, progress_bar
from crwn.data.sources import available, fetch, import_data, load

__all__ = [
    "ImageSet",
    "Progress",
    "available",
    "fetch",
    "import_data",
    "load",
    "progress_bar",
    "read_image_set",
    "in_order",
    "read_labelled",
    "read_table",
]
