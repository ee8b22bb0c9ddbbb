"""Data: datasets and their cache, readers for the user's files, and rows converted to model inputs.

`sources/` has one file per known dataset. May import: `models`, `layers`, `errors`.
"""

from crwn.data.custom import read_image_set
from crwn.data.files import DataFile, read_file, read_labelled
from crwn.data.image_set import ImageSet
from crwn.data.images import ImageFiles
from crwn.data.progress import Progress, progress_bar
from crwn.data.sources import available, fetch, import_data, load
from crwn.data.tables import Table, table_of_objects

__all__ = [
    "DataFile",
    "ImageFiles",
    "ImageSet",
    "Progress",
    "Table",
    "available",
    "fetch",
    "import_data",
    "load",
    "progress_bar",
    "read_image_set",
    "read_labelled",
    "table_of_objects",
    "read_file",
]
